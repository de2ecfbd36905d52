"""Importing: dates and order of the source, nothing counted, and twice is once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.exports import FILE, mattermost, rocketchat, slack, zulip
from tests.support.messaging.faulty_stores import Do, FaultyNode, down
from tidings.errors import Unavailable
from tidings.messaging.threads.records import THREADS, thread_of
from tidings.messaging.transfer.sources.jsonl import JsonLines
from tidings.messaging.transfer.sources.open import SOURCES
from tidings.messaging.transfer.sources.slack import Slack
from tidings.messaging.transfer.walk import records_of
from tidings.model import KINDS
from tidings.stores.tables.records import of_conversation


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
    (file,) = (await a.core.filing.downloads.page(reader, room.conversation_id, kind=None, limit=9, cursor=None)).files
    assert (file[0].name, file[0].bytes) == ("notes.txt", len(FILE))
    assert await a.unread(reader) == 0 and await a.wrong() == []
    again = await a.core.importing.run(source)
    assert (again.messages, again.known, again.files) == (0, first.messages, 0)


async def test_an_import_that_was_cut_in_the_middle_goes_on(a: FaultyNode, tmp_path: Path) -> None:
    source = Slack(slack(tmp_path / "slack.zip", channels=2, messages=300), {})
    a.faulty_log.faults.extend([_through, _through, _through, down])
    with pytest.raises(Unavailable):
        await a.core.importing.run(source)
    a.faulty_log.faults.clear()
    done = await a.core.importing.run(source)
    assert done.messages + done.known == 300 and done.known > 0
    for room in source.conversations():
        entries = [entry for entry in await a.log(room.conversation_id) if KINDS[entry.kind].is_target]
        assert [entry.message_id for entry in entries] == [one.message_id for one in source.messages(room)]
        assert len([entry for entry in entries if entry.thread_seq is not None]) == 30
        owner = of_conversation(room.conversation_id)
        found = [record async for record in records_of(a.tables.records, owner, THREADS)]
        assert [thread_of(record)[0].replies for record in found] == [2] * 15
    assert await a.wrong() == []


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
    begun_s = a.clock.monotonic_s()
    done = await a.core.importing.run(source)
    took_s = a.clock.monotonic_s() - begun_s
    print(f"{done.messages:,} messages in {took_s:.1f} s: {done.messages / took_s:,.0f} a second")
    assert done.messages == count
    again = await a.core.importing.run(source)
    assert (again.messages, again.known) == (0, count)
    for room in source.conversations():
        top = await a.tables.log.top(room.conversation_id)
        assert top.seq_no >= count // 20
