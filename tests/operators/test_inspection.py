"""What an operator sees of a user and of a conversation: true figures, and nothing that people wrote."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable

import msgspec
import pytest

from tests.support.messaging.faulty_stores import Device as Socket
from tidings.config.settings import Archive, Settings
from tidings.errors import BadCursor, NotFound, StoreUnavailable, Unavailable
from tidings.messaging.unread.verify import Report
from tidings.model import Content, Status, User
from tidings.node.admin import build_inspection
from tidings.node.graph import Core
from tidings.operators.inspection import ConnectionView, Inspection
from tidings.stores.keyspace.call import plain
from tidings.stores.tables.values import Device

SECRET_TEXT = "a text that only members may read"
TOKEN = "a-push-token-that-nobody-may-see"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, archive=Archive(after_days=0))


@pytest.fixture
async def lookup(core: Core) -> Inspection:
    return build_inspection(core)


@pytest.fixture
async def group(core: Core) -> str:
    view, _ = await core.directory.create("ann", kind="group", members=["bob", "cleo"], name="Three")
    for number in range(3):
        await core.sends.send("ann", view.head.conversation_id, f"m{number}", Content(SECRET_TEXT))
    return view.head.conversation_id


# --- a user ---------------------------------------------------------------------------------------


async def test_a_user_is_shown_with_unread_devices_and_days(core: Core, lookup: Inspection, group: str) -> None:
    await core.tables.accounts.put_user(User(user_id="bob", name="Bob", tokens_valid_after=5))
    await core.tables.devices.put(
        Device(user_id="bob", device_id="tablet", provider="fcm", token=TOKEN, last_seen_ms=77)
    )
    phone = Socket("bob", "c1", "phone")
    core.hub.attach(phone)
    await core.registry.claim(phone)
    core.limiting.activity.note("bob")
    await core.limiting.activity.flush()
    user = await lookup.user("bob", None)
    assert (user.name, user.is_known, user.is_online, user.tokens_valid_after) == ("Bob", True, True, 5)
    assert user.connections == [ConnectionView(core.node_id, "c1", "phone")]
    assert [(one.device_id, one.provider, one.is_live) for one in user.devices] == [
        ("phone", None, True),
        ("tablet", "fcm", False),
    ]
    assert user.devices[1].last_seen == 77
    assert (user.total_unread, user.unread_conversations, len(user.active_days)) == (3, 1, 1)
    only = user.conversations[0]
    assert (only.conversation_id, only.name, only.unread_count, only.last_seq) == (group, "Three", 3, 3)
    assert await lookup.connections("bob") == user.connections


async def test_nothing_that_people_wrote_and_no_push_token_is_shown(core: Core, lookup: Inspection, group: str) -> None:
    await core.tables.devices.put(Device(user_id="bob", device_id="tablet", provider="fcm", token=TOKEN))
    shown = msgspec.json.encode((await lookup.user("bob", None), await lookup.conversation(group))).decode()
    assert SECRET_TEXT not in shown and SECRET_TEXT[:20] not in shown
    assert TOKEN not in shown


async def test_somebody_nobody_has_heard_of_is_not_known(lookup: Inspection) -> None:
    nobody = await lookup.user("nobody", None)
    assert not nobody.is_known and not nobody.is_online
    assert (nobody.conversations, nobody.devices, nobody.last_seen, nobody.next_cursor) == ([], [], None, None)


async def test_conversations_come_a_page_at_a_time(core: Core, lookup: Inspection) -> None:
    for number in range(25):
        await core.directory.create("ann", kind="group", members=[], name=f"g{number}")
    first = await lookup.user("ann", None)
    assert len(first.conversations) == 20 and first.next_cursor is not None
    rest = await lookup.user("ann", first.next_cursor)
    assert len(rest.conversations) == 5 and rest.next_cursor is None


async def test_counts_are_verified_and_a_wrong_one_is_named(core: Core, lookup: Inspection, group: str) -> None:
    await lookup.user("bob", None)
    assert await lookup.verify("bob") == Report(1, 1, 0, 0, [])
    unread = core.keys.unread("bob", group)
    mark = core.keys.mark("bob")
    packed = (await core.keyspace.one(plain(mark, b"HGET", mark, group))).decode()
    parts = msgspec.json.decode(packed)
    parts[3] = 2  # the mark says two, as many as its set then has
    await core.keyspace.one(plain(unread, b"ZREM", unread, 3))
    await core.keyspace.one(plain(mark, b"HSET", mark, group, msgspec.json.encode(parts)))
    wrong = (await lookup.verify("bob")).wrong
    assert [(one.what, one.expected, one.found) for one in wrong if one.what == "unread"] == [("unread", 3, 2)]
    assert (await lookup.verify("bob")).repaired == 0, "looking repairs nothing"


async def test_one_user_is_verified_at_a_time(core: Core, lookup: Inspection, group: str) -> None:
    answers = await asyncio.gather(lookup.verify("bob"), lookup.verify("ann"), return_exceptions=True)
    assert isinstance(answers[0], Report) and isinstance(answers[1], StoreUnavailable)


# --- a conversation -------------------------------------------------------------------------------


async def test_a_conversation_is_shown_with_its_members_and_ticks(core: Core, lookup: Inspection, group: str) -> None:
    await core.unread.mark_read("bob", group, up_to_seq=2)
    await core.receipts.flush()
    shown = await lookup.conversation(group)
    assert (shown.kind, shown.name, shown.head, shown.last_seq) == ("group", "Three", 3, 3)
    assert [(one.user_id, one.role, one.read_seq) for one in shown.members] == [
        ("ann", "owner", 0),
        ("bob", "member", 2),
        ("cleo", "member", 0),
    ]


async def test_many_members_come_a_page_at_a_time_and_nobody_reads_them_all(
    core: Core, lookup: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [f"p{number:03d}" for number in range(250)]
    view, _ = await core.directory.create("zoe", kind="channel", members=people, name="News")
    asked: list[int] = []
    is_online = core.registry.is_online

    async def counted(user_ids: Iterable[str]) -> dict[str, bool]:
        ids = list(user_ids)
        asked.append(len(ids))
        return await is_online(ids)

    async def never(conversation_id: str) -> list[Status]:
        raise AssertionError("all of them were read")

    monkeypatch.setattr(core.registry, "is_online", counted)
    monkeypatch.setattr(core.tables.statuses, "of_conversation", never)
    seen, cursor = list[str](), None
    for page in range(3):
        shown = await lookup.conversation(view.head.conversation_id, cursor)
        assert shown.members_count == 251 and (shown.archive is not None) == (page == 0)
        seen += [one.user_id for one in shown.members]
        cursor = shown.next_cursor
    assert cursor is None and sorted(seen) == [*people, "zoe"] and asked == [100, 100, 51]
    with pytest.raises(BadCursor):
        await lookup.conversation(view.head.conversation_id, "no user")


async def test_what_was_archived_is_told(core: Core, lookup: Inspection, group: str) -> None:
    assert (await lookup.conversation(group)).archive is not None
    await core.cold.archiving.run()
    archive = (await lookup.conversation(group)).archive
    assert archive is not None and (archive.archived_seq, archive.segments) == (3, 1) and archive.bytes > 0


async def test_blobs_that_do_not_answer_hide_nothing_else(
    core: Core, lookup: Inspection, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down() -> str:
        raise Unavailable("down")

    monkeypatch.setattr(core.tables.archive, "id", down)
    shown = await lookup.conversation(group)
    assert shown.archive is None and len(shown.members) == 3


async def test_a_conversation_that_does_not_exist_is_not_found(lookup: Inspection) -> None:
    with pytest.raises(NotFound):
        await lookup.conversation("c-nowhere")
