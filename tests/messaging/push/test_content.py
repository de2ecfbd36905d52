"""What a push says is what is true when it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.push_node import PostOffice, open_office
from tidings.config.settings import Settings
from tidings.messaging.push.content import NoticeContent, Notices
from tidings.messaging.push.job import Job
from tidings.messaging.reading.flags import FlagChange
from tidings.model import Content, ContentPatch, User
from tidings.stores.tables.values import Preferences, Quiet


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[PostOffice]:
    async with open_office(settings, grace_s=60) as made:
        yield made


async def content(office: PostOffice, user_id: str, conversation_id: str, seq_no: int) -> NoticeContent | None:
    job = Job(user_id=user_id, made_ms=0, conversation_id=conversation_id, seq_no=seq_no)
    return await office.notices.content(job)


async def test_a_direct_message_is_from_its_sender_by_name(office: PostOffice) -> None:
    c = await office.create("alice", "bob", kind="direct")
    await office.send("alice", c, "secret words")
    assert await content(office, "bob", c, 1) == NoticeContent(badge=1, title="alice", body="New message")
    await office.core.tables.accounts.put_user(User(user_id="alice", name="Alice A."))
    assert await content(office, "bob", c, 1) == NoticeContent(badge=1, title="Alice A.", body="New message")


async def test_a_group_is_named_and_so_is_the_sender(office: PostOffice) -> None:
    c = await office.create("alice", "bob", name="Crew")
    await office.send("alice", c, "secret words")
    assert await content(office, "bob", c, 1) == NoticeContent(badge=1, title="Crew", body="New message from alice")
    nameless = await office.create("alice", "bob")
    await office.send("alice", nameless)
    assert await content(office, "bob", nameless, 1) == NoticeContent(badge=2, title="alice", body="New message")


async def test_the_text_is_there_only_where_previews_are_wanted(office: PostOffice) -> None:
    c, d = await office.create("alice", "bob", name="Crew"), await office.create("alice", "bob", kind="direct")
    office.notices = Notices(
        office.core.access,
        office.core.tables.log,
        office.core.tables,
        office.core.unread,
        office.core.clock,
        has_preview=True,
    )
    await office.send("alice", c, "line one\nline two " + "x" * 500)
    await office.send("alice", d, "hi")
    found = await content(office, "bob", c, 1)
    assert found is not None and found.body is not None
    assert found.body.startswith("alice: line one line two xx") and len(found.body) < 150
    assert await content(office, "bob", d, 1) == NoticeContent(badge=2, title="alice", body="hi")
    await office.core.rewrites.edit("alice", d, 1, ContentPatch("hello"))
    edited = await content(office, "bob", d, 1)
    assert edited is not None and edited.body == "hello"


async def test_the_badge_is_the_inboxs_own_total(office: PostOffice) -> None:
    c, d = await office.create("alice", "bob"), await office.create("carol", "bob")
    for _ in range(3):
        await office.send("alice", c)
    await office.send("carol", d)
    found = await content(office, "bob", d, 1)
    assert found is not None and found.badge == 4 == (await office.core.unread.totals("bob")).total_unread
    await office.core.unread.mark_read("bob", c, up_to_seq=2)
    badge = await office.notices.content(Job(user_id="bob", made_ms=0))
    assert badge == NoticeContent(badge=2, is_silent=True)


async def test_a_muted_conversation_is_silent(office: PostOffice) -> None:
    c = await office.create("alice", "bob", name="Crew")
    await office.send("alice", c)
    await office.core.flags.set("bob", c, FlagChange(muted=True))
    assert await content(office, "bob", c, 1) == NoticeContent(badge=0, is_silent=True)


async def test_a_level_lets_mentions_or_nothing_through(office: PostOffice) -> None:
    c = await office.create("alice", "bob", name="Crew")
    await office.send("alice", c)
    await office.core.sends.send("alice", c, None, Content("you", mentions=("bob",)))
    for notify, is_silent in (("all", (False, False)), ("mentions", (True, False)), ("none", (True, True))):
        await office.core.flags.set("bob", c, FlagChange(notify=notify))  # type: ignore[arg-type]
        found = [await content(office, "bob", c, seq_no) for seq_no in (1, 2)]
        assert tuple(one is not None and one.is_silent for one in found) == is_silent


async def test_the_badge_can_be_the_mentions_alone(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    await office.send("alice", c)
    await office.core.sends.send("alice", c, None, Content("you", mentions=("bob",)))
    await office.core.tables.people.put_preferences("bob", Preferences(badge="mentions"))
    found = await content(office, "bob", c, 1)
    assert found is not None and found.badge == 1


async def test_nothing_is_said_of_what_was_read_deleted_or_is_ones_own(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    for _ in range(4):
        await office.send("alice", c)
    await office.core.unread.mark_read("bob", c, up_to_seq=1)
    await office.core.unread.mark_read("bob", c, seqs=[3])
    await office.core.rewrites.delete("alice", c, 4)
    assert [await content(office, "bob", c, seq_no) is not None for seq_no in (1, 2, 3, 4, 5, 99)] == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]
    assert await content(office, "alice", c, 2) is None


async def test_nothing_is_said_to_who_is_no_member(office: PostOffice) -> None:
    c = await office.create("alice", "bob", history="joined")
    await office.send("alice", c)
    assert await content(office, "bob", c, 1) is not None
    await office.core.directory.remove("alice", c, "bob")
    assert await content(office, "bob", c, 1) is None
    assert await content(office, "stranger", c, 1) is None
    await office.core.directory.add("alice", c, ["bob"])
    assert await content(office, "bob", c, 1) is None
    await office.core.directory.delete("alice", c)
    assert await content(office, "alice", c, 1) is None


async def test_quiet_hours_leave_the_badge_and_ask_for_a_summary(office: PostOffice) -> None:
    c = await office.create("alice", "bob", name="Crew")
    await office.send("alice", c, "one")
    await office.core.sends.send("alice", c, None, Content("two", mentions=("bob",)))
    quiet = (Quiet((1, 2, 3, 4, 5, 6, 7), 0, 0),)
    await office.core.tables.people.put_preferences("bob", Preferences(quiet=quiet))
    found = await content(office, "bob", c, 1)
    assert found is not None and (found.badge, found.is_silent, found.title) == (2, True, None)
    assert found.summary_ms is not None and found.summary_ms > office.core.clock.now_ms()
    mentioned = await content(office, "bob", c, 2)
    assert mentioned is not None and (mentioned.title, mentioned.summary_ms) == ("Crew", None)
    await office.core.tables.people.put_preferences("bob", Preferences(quiet=quiet, quiet_lets="nothing"))
    mentioned = await content(office, "bob", c, 2)
    assert mentioned is not None and mentioned.is_silent and mentioned.summary_ms is not None


async def test_a_summary_says_how_much_is_unread_or_nothing(office: PostOffice) -> None:
    summary = Job(user_id="bob", made_ms=0, is_summary=True)
    first, second = [await office.create("alice", "bob", kind="channel", name=name) for name in ("one", "two")]
    await office.send("alice", first, "m")
    found = await office.notices.content(summary)
    assert found == NoticeContent(badge=1, title="1 unread message", body="in one conversation")
    await office.core.sends.send("alice", second, None, Content("two"))
    found = await office.notices.content(summary)
    assert found == NoticeContent(badge=2, title="2 unread messages", body="in 2 conversations")
    for conversation_id in (first, second):
        await office.core.unread.mark_read("bob", conversation_id, up_to_seq=1)
    assert await office.notices.content(summary) is None
