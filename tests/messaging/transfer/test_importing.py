"""Importing: dates and order of the source, nothing counted, and twice is once."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest

from tests.support.exports import FILE, mattermost, rocketchat, slack, zulip
from tests.support.messaging.faulty_stores import Do, FaultyNode, down
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.messaging.log import entry_at
from tidings.messaging.threads.records import THREADS, thread_of
from tidings.messaging.transfer.sources.jsonl import JsonLines
from tidings.messaging.transfer.sources.open import SOURCES
from tidings.messaging.transfer.sources.slack import Slack
from tidings.messaging.transfer.walk import entries_of, records_of
from tidings.model import KINDS, Content
from tidings.stores.tables.records import of_conversation


@pytest.fixture(params=[500, 1], ids=["small", "large"])
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Both sides of the line."""
    return dataclasses.replace(settings, members_large=request.param)


def lines(path: Path, messages: int) -> Path:
    people = [{"type": "user", "user_id": "ann", "name": "Ann"}, {"type": "user", "user_id": "ben"}]
    room = {"type": "conversation", "conversation_id": "old-room", "name": "Old room", "members": ["ann", "ben"]}
    said = [
        {
            "type": "message",
            "conversation_id": "old-room",
            "message_id": f"m{at}",
            "sender_id": "ann",
            "text": f"words {at}",
            "sent_at": 1_500_000_000_000 + at,
        }
        for at in range(messages)
    ]
    path.write_text("\n".join(map(json.dumps, [*people, room, *said])), "utf-8")
    return path


async def test_messages_come_with_their_dates_and_count_for_nobody(a: FaultyNode, tmp_path: Path) -> None:
    importing = a.core.importing
    done = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 100), {}))
    assert (done.users, done.conversations, done.messages, done.known) == (2, 1, 100, 0)
    page = await a.core.history.page("ben", "old-room", limit=100)
    assert [entry.text for entry in page.entries] == [f"words {at}" for at in reversed(range(100))]
    assert [entry.sent_ms for entry in page.entries][-1] == 1_500_000_000_000
    assert page.entries[0].content is not None and page.entries[0].content.imported
    assert await a.unread("ben") == 0 and await a.wrong() == []
    assert await a.code("ben", "old-room", "new") == "stored"
    assert await a.unread("ann") == 1


async def test_the_same_import_again_writes_only_what_is_new(a: FaultyNode, tmp_path: Path) -> None:
    importing = a.core.importing
    await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 90), {}))
    again = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 90), {}))
    assert (again.messages, again.known) == (0, 90)
    more = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 95), {}))
    assert (more.messages, more.known) == (5, 90)
    assert len(await a.log("old-room")) == 95


async def test_no_byte_of_an_imported_message_stays_when_it_is_deleted(a: FaultyNode, tmp_path: Path) -> None:
    a.clock.ahead_ms = -3_600_000  # an hour ago: rows of a conversation that has just become large are still written
    await a.core.importing.run(JsonLines(lines(tmp_path / "old.jsonl", 3), {}))
    a.clock.ahead_ms = 0
    last = await entry_at(a.tables.log, "old-room", 3)
    assert last is not None and last.text == "words 2"
    (row,) = (await a.core.inbox.page("ben", limit=10, cursor=None)).items
    assert row.row.last_message_preview == "words 2"
    await a.core.rewrites.remove(last)
    assert await a.tables.wipe()
    assert b"words 2" not in (tmp_path / "tidings.db").read_bytes()


async def test_a_dry_run_counts_and_writes_nothing(a: FaultyNode, tmp_path: Path) -> None:
    importing = a.core.importing
    done = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 10), {}), is_dry=True)
    assert done.messages == 10
    assert await a.tables.conversations.heads(["old-room"]) == {}


SOURCES_MADE = {"mattermost": mattermost, "rocketchat": rocketchat, "zulip": zulip}


@pytest.mark.parametrize("product", SOURCES_MADE)
async def test_the_export_of_a_product_is_imported_with_threads_reactions_and_files(
    a: FaultyNode, tmp_path: Path, product: str
) -> None:
    source = SOURCES[product](SOURCES_MADE[product](tmp_path / "export"), {})
    first = await a.core.importing.run(source)
    assert first.messages >= 3 and (first.known, first.files) == (0, 1)
    room = source.conversations()[0]
    entries = await a.log(room.conversation_id)
    roots = {entry.message_id: entry.seq_no for entry in entries}
    wanted = {one.message_id: roots[one.root] for one in source.messages(room) if one.root is not None}
    records = a.tables.records
    found = [record async for record in records_of(records, of_conversation(room.conversation_id), THREADS)]
    assert sum(thread_of(record)[0].replies for record in found) == len(wanted)
    assert wanted and {entry.message_id: entry.thread_seq for entry in entries if entry.thread_seq} == wanted
    reader = room.members[0].user_id
    page = await a.core.history.page(reader, room.conversation_id, limit=100)
    assert [beside.reactions for beside in page.beside.values() if beside.reactions]
    (file,) = (await a.core.filing.downloads.page(reader, room.conversation_id, kind=None, limit=9)).files
    assert (file[0].name, file[0].bytes) == ("notes.txt", len(FILE))
    assert await a.unread(reader) == 0 and await a.wrong() == []
    again = await a.core.importing.run(source)
    assert (again.messages, again.known, again.files) == (0, first.messages, 0)


async def test_an_import_that_was_cut_in_the_middle_goes_on(a: FaultyNode, tmp_path: Path) -> None:
    source = Slack(slack(tmp_path / "slack.zip", channels=2, messages=1_600), {})
    a.faulty_log.faults.extend([_through, _through, _through, down])
    with pytest.raises(Unavailable):
        await a.core.importing.run(source)
    a.faulty_log.faults.clear()
    done = await a.core.importing.run(source)
    assert done.messages + done.known == 1_600 and done.known > 0
    for room in source.conversations():
        entries = [entry for entry in await a.log(room.conversation_id) if KINDS[entry.kind].is_target]
        assert [entry.message_id for entry in entries] == [one.message_id for one in source.messages(room)]
        assert len([entry for entry in entries if entry.thread_seq is not None]) == 160
        owner = of_conversation(room.conversation_id)
        found = [record async for record in records_of(a.tables.records, owner, THREADS)]
        assert [thread_of(record)[0].replies for record in found] == [2] * 80
        for record in found:
            root = int(record.name)
            wrote = {entry.sender_id for entry in entries if root in (entry.seq_no, entry.thread_seq)}
            assert set(thread_of(record)[0].followers) == wrote & {one.user_id for one in room.members}
    assert await a.wrong() == []


async def test_hundreds_of_entries_share_a_commit_and_no_commit_is_above_the_limit_of_the_tables(
    a: FaultyNode, tmp_path: Path
) -> None:
    await a.core.importing.run(Slack(slack(tmp_path / "slack.zip", channels=1, messages=1_000), {}))
    sizes = [len(group.entries) + len(group.puts) for groups in a.faulty_log.appends for group in groups]
    assert len(sizes) <= 4 and max(sizes) <= a.tables.commit_max


async def test_a_reply_after_an_import_is_unread_for_those_who_wrote_in_the_thread(
    a: FaultyNode, tmp_path: Path
) -> None:
    source = Slack(slack(tmp_path / "slack.zip", channels=1, messages=40), {})
    await a.core.importing.run(source)
    [room] = source.conversations()
    entries = await a.log(room.conversation_id)
    [root, *_] = [entry.thread_seq for entry in entries if entry.thread_seq is not None]
    wrote = {entry.sender_id for entry in entries if root in (entry.seq_no, entry.thread_seq)}
    for user_id in wrote:
        listed = await a.core.threads.page(str(user_id), limit=50, cursor=None, filter_name="all")
        assert root in [one.thread_seq for one in listed.items] and listed.unread_threads == 0
    writer, *others = sorted(map(str, wrote))
    await a.core.sends.send(writer, room.conversation_id, "new", Content("new", thread_seq=root))
    for user_id in others:
        listed = await a.core.threads.page(user_id, limit=50, cursor=None, filter_name="unread")
        assert [(one.thread_seq, one.unread_count) for one in listed.items] == [(root, 1)]
    assert others and await a.wrong() == []


async def test_words_of_others_after_an_import_stay_unread_when_it_is_run_again(a: FaultyNode, tmp_path: Path) -> None:
    source = JsonLines(lines(tmp_path / "old.jsonl", 10), {})
    await a.core.importing.run(source)
    await a.send("ann", "old-room", "new", "words from now")
    await a.core.importing.run(source)
    assert await a.unread("ben") == 1 and await a.wrong() == []


async def _through(do: Do) -> object:
    return await do()


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_million_messages_of_a_slack_export_are_imported_once(a: FaultyNode, tmp_path: Path) -> None:
    """TIDINGS_TEST_IMPORT sets another number. The rate is printed, and nothing is asserted of it."""
    count = int(os.environ.get("TIDINGS_TEST_IMPORT", "1000000"))
    source = Slack(slack(tmp_path / "slack.zip", channels=20, messages=count), {})
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    done = await a.core.importing.run(source)
    took_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
    print(f"{count / took_s:,.0f} messages a second, {count / cpu_s:,.0f} in a second of processor time")
    assert done.messages == count
    again = await a.core.importing.run(source)
    assert (again.messages, again.known) == (0, count)
    for room in source.conversations():
        head = (await a.tables.conversations.heads([room.conversation_id]))[room.conversation_id]
        wanted = source.messages(room)
        async for entry in entries_of(a.tables.log, head):
            if KINDS[entry.kind].is_target:
                one = next(wanted)
                assert (entry.message_id, entry.sender_id, entry.sent_ms, entry.timestamp, entry.text) == (
                    one.message_id, one.sender_id, one.sent_ms, one.sent_ms, one.text,
                )  # fmt: skip
        assert next(wanted, None) is None
