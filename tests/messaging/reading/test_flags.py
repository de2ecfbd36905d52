"""Flags do what they say, on every device, and end by themselves."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.two_nodes import connect, pass_time
from tests.support.waiting import eventually
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.messaging.reading.flags import FlagChange, columns_of
from tidings.messaging.reading.table_filters import Filter
from tidings.model import Content, ConversationKind, Row, Totals
from tidings.pushes import ConversationUpdated
from tidings.stores.tables.values import Preferences


async def flag(node: FaultyNode, conversation_id: str, user_id: str = "bob", **flags: object) -> Row:
    change = FlagChange(**flags)  # type: ignore[arg-type]
    return (await node.core.flags.set(user_id, conversation_id, change)).row


async def listed(
    node: FaultyNode, filter_name: Filter | None = None, kind: ConversationKind | None = None, limit: int = 20
) -> list[str]:
    """The whole inbox of bob, or a filter of it, page by page."""
    found, cursor = list[str](), None
    while True:
        page = await node.core.inbox.page("bob", limit=limit, cursor=cursor, filter_name=filter_name, kind=kind)
        found += [item.row.conversation_id for item in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def several(node: FaultyNode, count: int) -> list[str]:
    """Groups of alice and bob, each with a message of alice."""
    ids = []
    for number in range(count):
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name=f"g{number}")
        ids.append(view.head.conversation_id)
        await node.send("alice", ids[-1], "m1")
    return ids


async def lose(node: FaultyNode) -> None:
    await node.command("DEL", node.core.keys.mark("bob"), node.core.keys.inbox("bob"))


async def test_flags_are_the_members_own_and_only_what_is_given_changes(a: FaultyNode, direct: str) -> None:
    row = await flag(a, direct, muted=True)
    assert (row.muted, row.pinned, row.archived) == (True, False, False)
    row = await flag(a, direct, pinned=True)
    assert (row.muted, row.pinned) == (True, True)
    assert not (await a.core.tables.inboxes.rows("alice", [direct]))[direct].muted
    await a.send("alice", direct, "m1")
    row = await flag(a, direct, archived=False)
    assert (row.last_seq, row.last_message_preview) == (1, "hi"), "not older than its count"
    (item,) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
    assert (item.row.muted, item.row.pinned, item.state.unread_count) == (True, True, 1)


async def test_a_stranger_flags_nothing(a: FaultyNode, direct: str) -> None:
    with pytest.raises(NotFound):
        await flag(a, direct, "eve", muted=True)


async def test_pinned_ones_come_first_in_the_order_of_pinning_and_after_a_loss_too(a: FaultyNode) -> None:
    ids = await several(a, 5)
    await flag(a, ids[1], pinned=True)
    pass_time(a, 1)
    await flag(a, ids[3], pinned=True)
    await a.send("alice", ids[3], "m2")
    expected = [ids[1], ids[3], ids[4], ids[2], ids[0]]
    for limit in (1, 2, 3, 20):
        assert await listed(a, limit=limit) == expected
    assert await listed(a, "pinned") == [ids[1], ids[3]]
    await lose(a)
    assert await listed(a) == expected
    await flag(a, ids[1], pinned=False)
    assert await listed(a) == [ids[3], ids[4], ids[2], ids[1], ids[0]]
    assert await a.wrong() == []


async def test_an_archived_one_is_left_out_and_comes_back_with_a_message(a: FaultyNode) -> None:
    one, other = await several(a, 2)
    row = await flag(a, one, archived=True)
    assert row.archived and (await listed(a), await listed(a, "archived")) == ([other], [one])
    await lose(a)
    assert (await listed(a), await listed(a, "archived")) == ([other], [one])
    await a.core.sends.send("alice", one, None, Content("hush", silent=True))
    assert await listed(a) == [other]
    await a.send("alice", one, "m2")
    assert (await listed(a), await listed(a, "archived")) == ([one, other], [])
    (item, _) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
    assert not item.row.archived
    await flag(a, one, muted=True)
    assert await listed(a) == [one, other], "what came back stays, whatever is muted later"
    await lose(a)
    assert await listed(a) == [one, other]
    assert await a.wrong() == []


async def test_devices_get_the_row_of_an_archived_one_that_is_back(a: FaultyNode) -> None:
    one, _ = await several(a, 2)
    await flag(a, one, archived=True)
    bob = await connect(a, "bob")
    await a.send("alice", one, "m2")
    await eventually(lambda: any(isinstance(event, ConversationUpdated) for event in bob.events))
    (row,) = [event.item.row for event in bob.events if isinstance(event, ConversationUpdated)]
    assert (row.conversation_id, row.archived, row.last_seq) == (one, False, 2)


async def test_a_message_from_before_brings_an_archived_one_not_back(a: FaultyNode) -> None:
    one, other = await several(a, 2)
    await flag(a, one, archived=True)
    assert await listed(a) == [other]
    await a.send("alice", one, "m1")  # a retry, indexed again
    assert (await listed(a), await listed(a, "archived")) == ([other], [one])
    assert not await a.wrong()


async def test_an_archived_one_that_is_muted_stays_away(a: FaultyNode) -> None:
    one, other = await several(a, 2)
    await flag(a, one, archived=True, muted=True)
    await a.send("alice", one, "m2")
    assert (await listed(a), await listed(a, "archived")) == ([other], [one])
    await lose(a)
    assert (await listed(a), await listed(a, "muted")) == ([other], [one])
    assert await a.wrong() == []


async def test_a_muted_one_counts_for_itself_and_not_in_the_total(a: FaultyNode) -> None:
    one, other = await several(a, 2)
    await flag(a, one, muted=True)
    await a.send("alice", one, "m2")
    assert await a.core.unread.totals("bob") == Totals(1, 2)
    assert (await a.core.unread.state("bob", one)).unread_count == 2
    assert await listed(a, "unread") == [one, other]
    await lose(a)
    assert await a.core.unread.totals("bob") == Totals(1, 2)
    await flag(a, one, muted=False)
    assert await a.core.unread.totals("bob") == Totals(3, 2)
    assert await a.wrong() == []


async def test_who_wants_all_in_the_badge_gets_muted_ones_too(a: FaultyNode) -> None:
    (one,) = await several(a, 1)
    await a.core.tables.people.put_preferences("bob", Preferences(badge="all"))
    await flag(a, one, muted=True)
    assert await a.core.unread.totals("bob") == Totals(1, 1)
    assert await a.wrong() == []


async def test_a_mute_ends_at_its_time(a: FaultyNode) -> None:
    (one,) = await several(a, 1)
    until_ms = a.clock.now_ms() + 60_000
    row = await flag(a, one, muted_until=until_ms)
    assert (row.muted, row.muted_until) == (True, until_ms)
    assert await a.core.unread.totals("bob") == Totals(0, 1)
    await flag(a, one, muted_until=a.clock.now_ms() + 1)
    pass_time(a, 1)
    for _ in range(100):
        if await a.core.unread.totals("bob") == Totals(1, 1):
            break
    (item,) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
    assert not item.row.muted and await a.core.unread.totals("bob") == Totals(1, 1)
    assert await a.wrong() == []


async def test_a_flag_reaches_all_devices(a: FaultyNode, direct: str) -> None:
    phone, laptop = await connect(a, "bob", "1"), await connect(a, "bob", "2")
    await flag(a, direct, pinned=True, notify="mentions")
    for device in (phone, laptop):
        (event,) = [event for event in device.events if isinstance(event, ConversationUpdated)]
        assert (event.item.row.pinned, event.item.row.notify) == (True, "mentions")


async def test_every_filter_shows_what_it_says_and_one_kind_alone(a: FaultyNode, direct: str) -> None:
    ids = await several(a, 3)
    await a.send("alice", direct, "m1")
    await a.core.sends.send("alice", ids[0], None, Content("you", mentions=("bob",)))
    await a.core.unread.mark_read("bob", ids[1], up_to_seq=9)
    assert set(await listed(a, "unread")) == {ids[0], ids[2], direct}
    assert await listed(a, "mentions") == [ids[0]]
    assert await listed(a, "unread", kind="direct") == [direct] == await listed(a, kind="direct")
    assert await listed(a, kind="channel") == []


async def test_a_cursor_belongs_to_its_filter(a: FaultyNode) -> None:
    await several(a, 3)
    page = await a.core.inbox.page("bob", limit=1, cursor=None, filter_name="unread")
    for name in (None, "mentions"):
        with pytest.raises(BadCursor):
            await a.core.inbox.page("bob", limit=1, cursor=page.next_cursor, filter_name=name)


def test_a_time_to_mute_until_makes_it_muted_and_none_ends_with_the_mute() -> None:
    row = Row(user_id="u", conversation_id="c", kind="group")
    assert columns_of(row, FlagChange(muted_until=9), 5) == {"muted": True, "muted_until": 9}
    assert columns_of(row, FlagChange(muted=False), 5) == {"muted": False, "muted_until": None}
    with pytest.raises(BadRequest):
        columns_of(row, FlagChange(muted=False, muted_until=9), 5)


async def test_the_end_of_a_mute_reaches_every_device_with_the_new_totals(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    device = await connect(a, "bob")
    changed: list[str] = []
    a.core.events.unread_changed.add(changed.append)
    await flag(a, direct, muted_until=a.clock.now_ms() + 60_000)
    await a.core.timed.step()
    assert (await a.core.unread.totals("bob")).total_unread == 0
    a.clock.ahead_ms += 60_001
    device.events.clear()
    changed.clear()
    while await a.core.timed.step():
        continue
    [told] = [event for event in device.events if isinstance(event, ConversationUpdated)]
    assert (told.item.row.conversation_id, told.item.state.total_unread) == (direct, 1)
    assert changed == ["bob"] and await a.wrong() == []
    device.events.clear()
    await a.core.timed.step()
    assert device.events == [], "once"


async def test_a_mute_that_was_ended_or_begun_anew_does_not_end_at_its_old_time(a: FaultyNode, direct: str) -> None:
    until_ms = a.clock.now_ms() + 60_000
    await flag(a, direct, muted_until=until_ms)
    await flag(a, direct, muted_until=until_ms + 60_000)
    device = await connect(a, "bob")
    a.clock.ahead_ms += 60_001
    await a.core.timed.step()
    assert device.events == []
    await flag(a, direct, muted=False)
    device.events.clear()
    a.clock.ahead_ms += 60_001
    await a.core.timed.step()
    assert device.events == []


async def test_a_filter_leaves_out_what_lost_its_flag_while_the_page_was_read(a: FaultyNode, group: str) -> None:
    """The tables have the new flag before the index: a page that was listed before must not show the row."""
    await flag(a, group, muted=True)
    assert len((await a.core.inbox.page("bob", limit=20, cursor=None, filter_name="muted")).items) == 1
    await a.tables.inboxes.flag("bob", group, {"muted": False})
    assert (await a.core.inbox.page("bob", limit=20, cursor=None, filter_name="muted")).items == []
