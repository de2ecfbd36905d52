"""The inbox costs the same for 20 conversations as for 50,000, its pages fit together, and its rows mend themselves."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from tests.support.messaging.big_inboxes import START_MS, name, put_many
from tests.support.messaging.faulty_stores import FaultyNode, down
from tests.support.messaging.warm_index_checks import check_warm, say
from tidings.errors import BadCursor, NotFound
from tidings.gateway.encode import inbox_row_of
from tidings.messaging.reading.inbox import FILTERS, decode_cursor, encode_cursor
from tidings.model import Content, ContentPatch, InboxPage, Row, Totals
from tidings.node.graph import Core
from tidings.stores.keyspace.scripts.answers import Place
from tidings.stores.tables.values import Touch

PLACE = Place("inbox", 5, "c")


def rows_read(core: Core, table: str = "conversations") -> int:
    return int(core.metrics.rows_read[table].value)


def repairs(core: Core, what: str) -> int:
    return int(core.metrics.repairs[what].value)


def ids_of(page: InboxPage) -> list[str]:
    return [item.row.conversation_id for item in page.items]


async def all_pages(
    core: Core, user_id: str, *, limit: int, between: Callable[[], Awaitable[object]] | None = None
) -> list[list[str]]:
    """Every page's ids, with something happening between them."""
    page = await core.inbox.page(user_id, limit=limit, cursor=None)
    pages = [ids_of(page)]
    while page.next_cursor is not None:
        if between is not None:
            await between()
        page = await core.inbox.page(user_id, limit=limit, cursor=page.next_cursor)
        pages.append(ids_of(page))
    return pages


def in_order(count: int, per_ms: int) -> list[str]:
    """What put_many made, as an inbox shows it."""
    places = [(START_MS + n // per_ms, name(n).encode()) for n in range(count)]
    return [id_.decode() for _, id_ in sorted(places, reverse=True)]


# --- big --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [5_000, pytest.param(50_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_an_open_reads_exactly_20_conversation_rows(core: Core, count: int) -> None:
    await put_many(core.tables, "ann", count, per_ms=7, unread_every=1_000)
    await core.unread.totals("ann")
    before, heads = rows_read(core), rows_read(core, "conversation_heads")
    page = await core.inbox.page("ann", limit=20, cursor=None)
    assert ids_of(page) == in_order(count, 7)[:20]
    assert (rows_read(core) - before, rows_read(core, "conversation_heads") - heads) == (20, 0)
    assert page.totals == Totals(count // 1_000, count // 1_000)
    deep = await core.inbox.page(
        "ann", limit=20, cursor=encode_cursor("ann", Place("inbox", START_MS + count // 14, "m"))
    )
    assert len(deep.items) == 20 and rows_read(core) - before == 40
    assert (await core.verify.run("ann", repair=False)).wrong == []


async def test_a_page_of_any_filter_reads_20_rows_in_the_round_trips_of_a_plain_one(a: FaultyNode) -> None:
    ids = await put_many(a.core.tables, "bob", 300, per_ms=7, unread_every=1)
    pinned, archived = {"pinned": True, "pinned_ms": 1}, {"archived": True, "archived_seq": 1}
    flags: list[dict[str, Any]] = [pinned, archived, {"muted": True}]
    for at, columns in enumerate(flags):
        await asyncio.gather(*(a.core.tables.inboxes.flag("bob", id_, columns) for id_ in ids[40 * at : 40 * at + 40]))
    for id_ in ids[200:240]:
        await a.core.sends.send("other", id_, None, Content("you", mentions=("bob",)))
    await a.core.unread.totals("bob")
    await a.core.rows.flush()
    costs = {}
    for shown in (None, *FILTERS):
        a.keyspace.runs.clear()
        before = rows_read(a.core)
        page = await a.core.inbox.page("bob", limit=20, cursor=None, filter_name=shown)
        assert len(page.items) == 20 and page.next_cursor is not None
        costs[shown] = rows_read(a.core) - before, list(a.keyspace.runs)
    assert costs == dict.fromkeys(costs, (20, [["inbox_page", "unread_state"]]))


async def test_a_page_without_records_reads_none(core: Core) -> None:
    (id_,) = await put_many(core.tables, "bob", 1, per_ms=1, unread_every=1)
    await core.drafts.put("bob", id_, "half a thought", 0)
    whole = await core.inbox.page("bob", limit=20, cursor=None)
    before = rows_read(core, "records")
    page = await core.inbox.page("bob", limit=20, cursor=None, has_records=False)
    assert rows_read(core, "records") == before
    (item,), (with_draft,) = page.items, whole.items
    assert with_draft.draft is not None and item.draft is None
    assert (item.row, item.state, page.totals) == (with_draft.row, with_draft.state, whole.totals)


async def test_pages_neither_repeat_nor_skip_where_times_tie(core: Core) -> None:
    await put_many(core.tables, "ann", 500, per_ms=60)
    pages = await all_pages(core, "ann", limit=17)
    assert [id_ for page in pages for id_ in page] == in_order(500, 60)
    assert [len(page) for page in pages] == [17] * 29 + [7]


async def test_the_last_page_says_so_even_when_it_is_full(core: Core) -> None:
    await put_many(core.tables, "ann", 40)
    assert [len(page) for page in await all_pages(core, "ann", limit=20)] == [20, 20]


async def test_pages_neither_repeat_nor_skip_while_conversations_move_up(core: Core) -> None:
    ids = await put_many(core.tables, "ann", 300, per_ms=25)
    moved: list[str] = []

    async def move_two_up() -> None:
        """The one a page ended with, and one that is still to come."""
        last = len(moved) * 7 % 300
        for id_ in (ids[last], ids[-1 - last]):
            moved.append(id_)
            await core.sends.send("other", id_, f"m{len(moved)}", Content("up"))

    listed = [id_ for page in await all_pages(core, "ann", limit=20, between=move_two_up) for id_ in page]
    assert len(listed) == len(set(listed))
    assert set(ids) - set(moved) <= set(listed)
    expected = in_order(300, 25)
    assert [id_ for id_ in listed if id_ not in moved] == [id_ for id_ in expected if id_ not in moved]


async def test_the_conversation_a_cursor_names_may_go_without_a_page_losing_its_place(core: Core) -> None:
    ids = await put_many(core.tables, "ann", 60, per_ms=30)
    first = await core.inbox.page("ann", limit=20, cursor=None)
    last = ids_of(first)[-1]
    await core.directory.remove("ann", last, "ann")
    second = await core.inbox.page("ann", limit=40, cursor=first.next_cursor)
    assert ids_of(first) + ids_of(second) == in_order(60, 30)
    assert len(ids) == 60


@pytest.mark.parametrize(("limit", "shown"), [(-5, 1), (0, 1), (1, 1), (100, 100), (101, 100), (1 << 40, 100)])
async def test_a_limit_is_clamped(core: Core, limit: int, shown: int) -> None:
    await put_many(core.tables, "ann", 120)
    assert len((await core.inbox.page("ann", limit=limit, cursor=None)).items) == shown


# --- cursors ----------------------------------------------------------------------------------------


def sealed(user_id: str, place: str) -> str:
    """A cursor whose seal is right, for a place that encode_cursor would not write."""
    from tidings.messaging.reading.inbox import _seal

    raw = place.encode()
    return base64.urlsafe_b64encode(_seal(user_id, raw) + raw).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "!!!!",
        "\N{SNOWMAN}",
        "a" * 5_000,
        encode_cursor("ben", PLACE),
        encode_cursor("ann", PLACE)[:-1],
        encode_cursor("ann", PLACE) + "=",
        encode_cursor("ann", PLACE) + "\n",
        base64.urlsafe_b64encode(b"123456" + b"inbox:5:c").decode(),
        sealed("ann", "outbox:5:c"),
        sealed("ann", "inbox:05:c"),
        sealed("ann", "inbox:\N{ARABIC-INDIC DIGIT FIVE}:c"),
        sealed("ann", "inbox:5.5:c"),
        sealed("ann", "inbox:inf:c"),
        sealed("ann", f"inbox:{1 << 54}:c"),
        sealed("ann", f"inbox:{'9' * 5_000}:c"),
        sealed("ann", "5:c"),
        sealed("ann", "inbox:5:{c}"),
        sealed("ann", "inbox:5"),
        sealed("ann", ":"),
    ],
)
async def test_a_cursor_that_was_not_made_for_this_user_is_refused(core: Core, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await core.inbox.page("ann", limit=20, cursor=cursor)


def test_a_cursor_comes_back_as_it_was() -> None:
    for score, id_ in ((0, "c"), (1 << 53, "d-" + "f" * 126), (1_794_770_399_146, "a.b@c_d"), (-5, "c"), (0, "")):
        place = Place("first", score, id_)
        assert decode_cursor("ann", encode_cursor("ann", place)) == place


async def test_an_empty_cursor_is_the_top(core: Core) -> None:
    await put_many(core.tables, "ann", 3)
    assert len((await core.inbox.page("ann", limit=20, cursor="")).items) == 3


# --- rows that are behind ---------------------------------------------------------------------------


async def row_of(core: Core, user_id: str, conversation_id: str) -> Row:
    return (await core.tables.inboxes.rows(user_id, [conversation_id]))[conversation_id]


async def test_a_row_that_is_behind_is_repaired_as_it_is_read_and_counted(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    assert (await row_of(a.core, "bob", direct)).last_seq == 0  # rows are written late
    (item,) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
    assert (item.row.last_seq, item.row.last_message_preview) == (1, "hello")
    kept = await row_of(a.core, "bob", direct)
    assert (kept.last_seq, kept.last_message_preview, kept.is_hidden) == (1, "hello", False)
    assert repairs(a.core, "row") == 1
    await a.core.inbox.page("bob", limit=20, cursor=None)
    assert repairs(a.core, "row") == 1


async def test_a_row_that_is_behind_is_noticed_also_after_the_clock_was_set_back(a: FaultyNode, direct: str) -> None:
    """Nothing but the time tells that the row is behind."""
    await a.send("alice", direct, "m1", "one")
    await a.command("HSET", a.core.keys.conv(direct), "at", a.clock.now_ms() + 3_600_000)
    for number, text in ((2, "two"), (3, "three")):
        await a.send("alice", direct, f"m{number}", text)
        (item,) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
        assert (item.row.last_seq, item.row.last_message_preview) == (number, text)


async def test_a_text_edited_while_its_row_is_repaired_is_the_one_that_stays(
    a: FaultyNode, b: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", direct, "m1", "before")
    touch = a.core.tables.inboxes.touch

    async def edit_first(touches: Sequence[Touch]) -> None:
        monkeypatch.undo()
        await b.core.rewrites.edit("alice", direct, 1, ContentPatch("after"))
        await touch(touches)

    monkeypatch.setattr(a.tables.inboxes, "touch", edit_first, raising=False)
    (item,) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
    assert item.row.last_message_preview == "after"
    assert (await row_of(a.core, "bob", direct)).last_message_preview == "after"
    assert repairs(a.core, "row") == 1


async def test_who_joins_a_group_is_not_shown_what_was_said_before(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "between us")
    await a.core.directory.add("alice", group, ["dave"])
    item = await a.core.inbox.item("dave", group)
    assert (item.row.last_message_preview, item.row.last_seq, item.state.unread_count) == (None, 0, 0)
    assert (await row_of(a.core, "dave", group)).last_message_preview is None
    await a.send("bob", group, "m2", "welcome")
    assert (await a.core.inbox.item("dave", group)).row.last_message_preview == "welcome"


async def test_a_conversation_left_without_the_keyspace_knowing_goes_from_the_page(a: FaultyNode, group: str) -> None:
    other, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
    await a.send("alice", group, "m1")
    await a.core.tables.conversations.delete(group)
    page = await a.core.inbox.page("bob", limit=20, cursor=None)
    assert ids_of(page) == [other.head.conversation_id]
    assert page.totals == Totals(0, 0)
    assert repairs(a.core, "inbox") == 1
    assert await check_warm(a.core, "bob")


async def test_a_cold_conversation_that_was_left_does_not_stop_the_inbox(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.command("DEL", a.core.keys.unread("bob", group))
    await a.send("alice", group, "m2")  # COLD from here on
    await a.core.tables.conversations.delete(group)
    assert (await a.core.inbox.page("bob", limit=20, cursor=None)).items == []
    assert await a.core.unread.totals("bob") == Totals(0, 0)


# --- flags, single lines, changes ---------------------------------------------------------------------


async def test_a_stranger_sees_no_line(a: FaultyNode, direct: str) -> None:
    with pytest.raises(NotFound):
        await a.core.inbox.item("eve", direct)


async def test_what_changed_since_a_time_is_newest_first(a: FaultyNode, direct: str, group: str) -> None:
    first = await a.send("alice", direct, "m1")
    second = await a.send("alice", group, "m1")
    assert await a.core.inbox.changed("bob", first.entry.sent_ms) == [group, direct]
    assert await a.core.inbox.changed("bob", second.entry.sent_ms) == [group]
    assert await a.core.inbox.changed("bob", second.entry.sent_ms + 1) == []


@pytest.mark.parametrize("seed", range(3))
async def test_each_unread_conversation_is_shown_once_to_a_device_that_pages_while_another_one_reads(
    a: FaultyNode, b: FaultyNode, seed: int
) -> None:
    """The place of a page is a score and an id: a conversation that leaves the filter hides no other."""
    dice = random.Random(seed)
    ids = await put_many(a.core.tables, "bob", 60, per_ms=9, unread_every=1)
    left = set(ids)  # unread from the first page to the last
    found, cursor = list[str](), None
    while True:
        page = await a.core.inbox.page("bob", limit=7, cursor=cursor, filter_name="unread")
        assert page.totals.unread_conversations == len(left) or not page.totals.unread_conversations
        found += ids_of(page)
        if (cursor := page.next_cursor) is None:
            break
        for id_ in dice.sample(sorted(left), min(len(left), dice.randint(0, 6))):
            await b.core.unread.mark_read("bob", id_, up_to_seq=1)
            left.discard(id_)
    assert len(found) == len(set(found)), "nothing is shown twice"
    assert left <= set(found), "nothing that is still unread was passed over"
    assert 0 < len(left) < len(ids)


# --- without the keyspace -----------------------------------------------------------------------------


async def test_with_the_keyspace_down_the_tables_answer_and_the_page_says_so(a: FaultyNode, direct: str) -> None:
    await put_many(a.core.tables, "bob", 45)
    await a.send("alice", direct, "m1", "hello")
    await a.core.sends.drain()  # rows are written
    a.keyspace.fail("inbox_page", *[down] * 10)
    pages: list[InboxPage] = []
    cursor = None
    while not pages or cursor is not None:
        pages.append(await a.core.inbox.page("bob", limit=20, cursor=cursor))
        cursor = pages[-1].next_cursor
    assert all(page.is_stale for page in pages)
    assert [id_ for page in pages for id_ in ids_of(page)] == [direct, *in_order(45, 1)]
    (item, *_) = pages[0].items
    assert (item.row.last_message_preview, item.state.unread_count, item.state.first_unread_seq) == ("hello", 1, 1)
    assert pages[0].totals == Totals(1, 1)


async def test_a_page_begun_with_the_keyspace_goes_on_without_it(a: FaultyNode) -> None:
    await put_many(a.core.tables, "bob", 60, per_ms=9)
    first = await a.core.inbox.page("bob", limit=20, cursor=None)
    a.keyspace.fail("inbox_page", down)
    second = await a.core.inbox.page("bob", limit=40, cursor=first.next_cursor)
    assert ids_of(first) + ids_of(second) == in_order(60, 9)
    assert (first.is_stale, second.is_stale) == (False, True)


async def test_counts_from_the_tables_follow_the_read_marks(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.sends.drain()
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.keyspace.fail("inbox_page", down)
    page = await a.core.inbox.page("bob", limit=20, cursor=None)
    assert page.items[0].state.unread_count == 0 and page.totals == Totals(0, 0)


async def test_pages_read_at_once_are_alike(a: FaultyNode, b: FaultyNode) -> None:
    await put_many(a.core.tables, "bob", 200, unread_every=3)
    await say(a.core, b"DEL", a.core.keys.mark("bob"))
    asked = [node.core.inbox.page("bob", limit=20, cursor=None) for _ in range(10) for node in (a, b)]
    pages = await asyncio.gather(*asked)
    assert all(page == pages[0] for page in pages)


async def test_pages_of_one_user_that_are_wanted_at_once_are_read_from_the_tables_once(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the keyspace goes, every client of a user reads the inbox again at the same moment."""
    await a.send("alice", direct, "m1")
    asked: list[int] = []
    latest = a.tables.inboxes.latest

    async def counted(user_id: str, **fields: Any) -> list[Row]:
        asked.append(fields["limit"])
        return await latest(user_id, **fields)

    monkeypatch.setattr(a.tables.inboxes, "latest", counted)
    a.keyspace.fail("inbox_page", *[down] * 20)
    pages = await asyncio.gather(*(a.core.inbox.page("bob", limit=20, cursor=None) for _ in range(20)))
    assert all(page == pages[0] and page.is_stale for page in pages)
    assert asked == [21], "one read of a page, not of all rows"


# --- what a row tells of its conversation -----------------------------------------------------------------


async def shown(node: FaultyNode, user_id: str = "bob") -> dict[str, Any]:
    """The first row of a page, as the wire has it. `conversation.updated` has the same fields."""
    item = (await node.core.inbox.page(user_id, limit=20, cursor=None)).items[0]
    row: dict[str, Any] = msgspec.to_builtins(inbox_row_of(item))
    alone = await node.core.inbox.item(user_id, item.row.conversation_id)
    assert msgspec.to_builtins(inbox_row_of(alone)) == row
    return row


async def test_a_row_tells_of_the_last_message_and_of_its_deletion(a: FaultyNode, direct: str) -> None:
    assert "last_message" not in await shown(a, "alice")
    await a.send("alice", direct, "m1")
    await a.core.sends.send("alice", direct, None, Content("hush", silent=True))
    last = {"seq": 1, "sender_id": "alice", "kind": "message"}
    assert (await shown(a))["last_message"] == last | {"text_preview": "hi"}
    await a.core.rows.flush()
    await a.core.rewrites.edit("alice", direct, 1, ContentPatch("ho"))
    assert (await shown(a))["last_message"] == last | {"text_preview": "ho"}
    await a.core.rewrites.delete("alice", direct, 1)
    assert (await shown(a))["last_message"] == last | {"deleted": True}
    assert (await shown(a))["last_message_preview"] is None


async def test_a_row_tells_the_role_the_rules_and_the_data(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="g")
    group = view.head.conversation_id
    row = await shown(a)
    assert (row["role"], "rules" in row, "data" in row) == ("member", False, False)
    assert (await shown(a, "alice"))["role"] == "owner"
    await a.core.directory.set_role("alice", group, "bob", "admin")
    await a.core.rules.change("alice", group, {"slow_s": 30, "data": {"color": "red"}})
    row = await shown(a)
    assert (row["role"], row["rules"], row["data"]) == ("admin", {"slow_s": 30}, {"color": "red"})
    await a.core.directory.add("alice", group, ["carl"])
    assert (await shown(a, "carl"))["role"] == "member"


async def test_a_page_without_rules_reads_no_record(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    records, members = rows_read(a.core, "records"), rows_read(a.core, "members")
    await a.core.inbox.page("bob", limit=20, cursor=None)
    assert (rows_read(a.core, "records"), rows_read(a.core, "members")) == (records, members)


async def test_an_inbox_is_read_from_the_tables_while_the_keyspace_takes_no_writes(a: FaultyNode, group: str) -> None:
    """A full disk or a full memory: the server refuses every script that may write."""
    await a.send("alice", group, "m1")
    assert await a.unread("bob") == 1
    await a.command("CONFIG", "SET", "maxmemory", "1")
    try:
        page = await a.core.inbox.page("bob", limit=20, cursor=None)
    finally:
        await a.command("CONFIG", "SET", "maxmemory", "0")
    assert ids_of(page) == [group] and page.is_stale and page.totals.total_unread == 1
