"""What every adapter of the Whole port must do."""

from __future__ import annotations

from typing import Any

from tests.contracts import START_MS, fresh, group, message, void
from tidings.model import Content, Entry, Head, Member, MemberChange, Row, Status, User
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Record
from tidings.stores.tables.values import ApiKey, Block, Device, Override, Preferences, Recheck, Waiting
from tidings.stores.tables.whole import IDENTITY, PARTS, Archived, Choice, Fact

TEXT = "Grüße\n\0 🙂 'quoted'"


def samples() -> dict[str, list[Any]]:
    """Rows of each table, with and without each value that may be missing. They are of one conversation."""
    c, a, b = fresh("c"), fresh("alice"), fresh("bob")
    edited = message(c, 1, TEXT, rev=3, edited_ms=5, edit_seq=3, receiver_id=b, mentions=(a, b), thread_seq=9)
    data = Content(TEXT, {"z": 1, "a": [None, {"deep": True}]}, silent=True, reply_to=1)
    said = Entry(c, 4, "message", START_MS, message_id="m4", sender_id=a, content=data, is_uncounted=True)
    gone = Entry(c, 5, "message", START_MS, message_id="m5", sender_id=b, is_deleted=True, rev=1)
    cold = Entry(c, 6, "message", START_MS, message_id="m6", sender_id=b, s3_ref="1-9.1.0123456789ab", digest=b"\0\xff")
    joined = Entry(c, 2, "member", START_MS, sender_id=a, member=MemberChange("added", (b,), "admin"))
    edit = Entry(c, 3, "edit", START_MS, message_id="m3", sender_id=a, target_seq=1, content=Content("new"))
    head = Head(conversation_id=c, kind="group", created_ms=1, name="", head=7, last_seq=6, last_ms=5, preview=TEXT)
    return {
        "users": [User(user_id=a), User(user_id=b, name="Bob", avatar_url="https://x/y", tokens_valid_after=7)],
        "api_keys": [ApiKey(key_hash=fresh("hash"), name="ops", role="admin", created_ms=5)],
        "blocks": [Block(a, b, 5), Block(b, a, 6)],
        "preferences": [Choice(a, Preferences()), Choice(b, Preferences(who_may_write="nobody"))],
        "devices": [
            Device(
                user_id=a, device_id="phone", provider="apns", token=fresh("token"), registered_ms=1, last_seen_ms=2
            ),
            Device(user_id=a, device_id="web", provider="webpush", token=fresh("https://x"), p256dh="k", auth="s"),
        ],
        "rate_overrides": [
            Override(scope="user", name=a, class_name="send", count=None, changed_ms=3),
            Override(scope="role", name=fresh("bot"), class_name="read", count=0, window_s=9),
        ],
        "conversation_heads": [head, Head(conversation_id=fresh("c"), kind="direct", created_ms=2, history="joined")],
        "archives": [Archived(c, 6, 1234)],
        "members": [
            Member(conversation_id=c, user_id=a, role="owner", joined_seq=1, joined_ms=2),
            Member(conversation_id=c, user_id=b, left_seq=0, is_requested=True),
        ],
        "messages": [edited, joined, edit, said, gone, cold, void(c, 7)],
        "message_status": [
            Status(conversation_id=c, user_id=a, delivered_seq=6, read_seq=5, cursor_seq=4, version=17, since_seq=1),
            Status(conversation_id=c, user_id=b, ranges=((1, 2), (5, 5)), version=3),
        ],
        "conversations": [
            Row(user_id=a, conversation_id=c, kind="group", last_message_preview=TEXT, unread_count=None, muted=True),
            Row(user_id=b, conversation_id=c, kind="group", name="", unread_count=4, is_hidden=True, hidden_seq=3),
        ],
        "pending_deliveries": [
            Waiting(user_id=a, conversation_id=c, first_seq=1, last_seq=6, since_ms=5, expires=2_000_000_000)
        ],
        "rechecks": [Recheck(conversation_id=c, s3_ref="*", why="deleted", mark="m", since_ms=5)],
        "records": [
            Record(f"u:{a}", "drafts", c, b'{"text":"half"}', 4),
            Record(f"c:{c}", "pins", "000000000001", b"{}", 1, due_ms=77),
        ],
    }


async def put_all(tables: Tables, rows: dict[str, list[Any]]) -> None:
    for table, values in rows.items():
        await tables.whole.put(table, values)


async def all_of(tables: Tables, table: str, limit: int = 1_000) -> list[Any]:
    found, after = await tables.whole.walk(table, after="", limit=limit)
    while after:
        more, after = await tables.whole.walk(table, after=after, limit=limit)
        found = [*found, *more]
    return found


class WholeContract:
    small_step = 1  # rows of a step: fewer than the tables hold

    async def test_every_table_gives_back_the_rows_that_were_put(self, tables: Tables) -> None:
        rows = samples()
        assert set(rows) == set(PARTS) - {"meta"}
        await put_all(tables, rows)
        await put_all(tables, rows)  # again: they are there once
        for table, values in rows.items():
            found = await all_of(tables, table)
            assert [found.count(value) for value in values] == [1] * len(values), table

    async def test_a_walk_in_small_steps_sees_every_row_once(self, tables: Tables) -> None:
        rows, limit = samples(), self.small_step
        await put_all(tables, rows)
        for table in ("messages", "devices", "rate_overrides", "blocks"):
            found = await all_of(tables, table, limit)
            assert [found.count(value) for value in rows[table]] == [1] * len(rows[table]), table

    async def test_rows_that_were_put_are_what_the_other_ports_read(self, tables: Tables) -> None:
        rows = samples()
        await put_all(tables, rows)
        head, entries = rows["conversation_heads"][0], rows["messages"]
        c, (alice, bob) = head.conversation_id, rows["users"]
        assert (await tables.conversations.heads([c]))[c] == head
        assert await tables.log.page(c, after=0, before=100, limit=10, newest_first=False) == entries
        assert await tables.conversations.members(c) == rows["members"][:1]
        assert (await tables.statuses.get(alice.user_id, [c]))[c] == rows["message_status"][0]
        assert (await tables.inboxes.rows(bob.user_id, [c]))[c] == rows["conversations"][1]
        assert await tables.accounts.user(bob.user_id) == bob
        assert await tables.devices.of_user(alice.user_id) == rows["devices"]
        assert (await tables.people.blockers_of([bob.user_id]))[bob.user_id] == frozenset((alice.user_id,))
        assert (await tables.people.preferences([bob.user_id]))[bob.user_id] == rows["preferences"][1].choices
        assert await tables.pending.of_user(alice.user_id) == rows["pending_deliveries"]
        assert [one for one in await tables.overrides.all() if one in rows["rate_overrides"]]
        assert (await tables.records.get(f"c:{c}", "pins", ["000000000001"]))["000000000001"] == rows["records"][1]
        assert rows["records"][1] in await tables.records.due("pins", until_ms=78, limit=1_000)

    async def test_what_was_put_goes_on_as_if_it_had_been_made_here(self, tables: Tables) -> None:
        """A resend is known, a status goes on from its version, and a token moves to its next owner."""
        rows = samples()
        await put_all(tables, rows)
        first, status, device = rows["messages"][0], rows["message_status"][0], rows["devices"][0]
        [answer] = await tables.log.append([_resend(first)])
        assert getattr(answer, "known", {})[0].seq_no == 1
        later = Status(conversation_id=status.conversation_id, user_id=status.user_id, version=18, cursor_seq=6)
        assert (await tables.statuses.put(later)).delivered_seq == 6
        other = Device(user_id=fresh("carol"), device_id="d", provider=device.provider, token=device.token)
        assert await tables.devices.put(other) == (device.user_id, device.device_id)

    async def test_the_identity_is_among_the_facts(self, tables: Tables) -> None:
        await tables.archive.id()
        facts = {fact.key: fact.value for fact in await all_of(tables, "meta")}
        assert set(facts) <= set(IDENTITY)
        assert facts["store_epoch"] == await tables.accounts.store_epoch() and facts["secret"] == tables.accounts.secret
        assert facts["archive_id"] == await tables.archive.id()
        before = await tables.archive.take_fence()
        await tables.whole.put("meta", [Fact("archive_fence", str(before + 5))])
        assert await tables.archive.take_fence() == before + 6


def _resend(entry: Entry) -> Any:
    return group(message(entry.conversation_id, 8, "hello", message_id=entry.message_id))
