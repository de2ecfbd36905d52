"""Entries of an import: threads, reactions and files stand where they belong."""

from __future__ import annotations

import pytest

from tidings.errors import BadRequest
from tidings.messaging.files.record import FileRecord
from tidings.messaging.files.record import value_of as file_of
from tidings.messaging.summaries import summary_of
from tidings.messaging.threads.records import REPLIES, THREADS, thread_of
from tidings.messaging.transfer.entries import Chunk
from tidings.messaging.transfer.sources.source import ImportedMessage
from tidings.model import Entry
from tidings.stores.tables.records import Put, Record


def record_of(put: Put) -> Record:
    assert put.value is not None
    return Record(put.owner, put.collection, put.name, put.value, 1)


def test_a_reply_names_the_number_of_its_root_and_counts_for_nobody() -> None:
    chunk = Chunk("c", 10, 500, {"ann": 0, "ben": 3})
    chunk.add(ImportedMessage("m1", "ann", 400, "root", is_root=True), {})
    chunk.add(ImportedMessage("m2", "ben", 700, "reply", root="m1"), {})
    chunk.add(ImportedMessage("m3", "ben", 600, "reply to nothing", root="m0"), {})
    (root, reply, lost), (said, thread) = chunk.take()
    assert (root.seq_no, root.sent_ms, root.timestamp, root.is_uncounted) == (11, 500, 400, False)
    assert (reply.seq_no, reply.thread_seq, reply.is_uncounted) == (12, 11, True)
    assert (lost.thread_seq, lost.sent_ms, lost.timestamp) == (None, 700, 600)
    assert (said.collection, thread.collection) == (REPLIES, THREADS)
    known, _ = thread_of(record_of(thread))
    assert (known.replies, known.last_seq, known.last_ms) == (1, 12, 700)
    assert {user_id: one.since_seq for user_id, one in known.followers.items()} == {"ann": 0, "ben": 3}
    assert chunk.take() == ([], []) and chunk.messages == 0


def test_the_author_of_a_root_and_those_named_follow_as_long_as_they_are_members() -> None:
    chunk = Chunk("c", 0, 0, {"ann": 0, "ben": 0, "carl": 0})
    chunk.add(ImportedMessage("m1", "gone", 1, "root", is_root=True), {})
    chunk.add(ImportedMessage("m2", "ben", 2, "reply", root="m1", mentions=("carl", "nobody")), {})
    _, (_, thread) = chunk.take()
    assert sorted(thread_of(record_of(thread))[0].followers) == ["ben", "carl"]
    chunk.add(ImportedMessage("m3", "ann", 3, "another", root="m1"), {})
    _, (_, thread) = chunk.take()
    assert sorted(thread_of(record_of(thread))[0].followers) == ["ann", "ben", "carl"]


def test_reactions_are_an_entry_and_the_summary_that_it_gives() -> None:
    chunk = Chunk("c", 0, 0, {})
    reactions = (("👍", ("ben", "carl")), ("x" * 33, ("ben",)), ("👎", ()))
    chunk.add(ImportedMessage("m1", "ann", 400, "text", reactions=reactions), {})
    (message, reaction), (put,) = chunk.take()
    assert (reaction.kind, reaction.target_seq, reaction.seq_no) == ("reaction", message.seq_no, 2)
    assert reaction.content is not None and reaction.content.reactions == (("👍", ("ben", "carl"), ()),)
    summary, _ = summary_of(record_of(put))
    assert (summary.reactions, summary.reactions_seq) == ({"👍": ["ben", "carl"]}, 2)


def test_a_file_is_attached_in_the_commit_of_its_message() -> None:
    chunk = Chunk("c", 0, 0, {})
    chunk.add(ImportedMessage("m1", "ann", 1, None), {"f1": FileRecord("ann", "a.txt", "text/plain", 5, 5)})
    (message,), (put,) = chunk.take()
    assert message.content is not None and message.content.files[0].name == "a.txt"
    value = file_of(record_of(put))
    assert (value.state, value.seq_no, value.message_id) == ("attached", 1, "m1")


def test_an_entry_is_not_put_below_another_one() -> None:
    chunk = Chunk("c", 7, 0, {})
    with pytest.raises(BadRequest, match="already"):
        chunk.add(ImportedMessage("m1", "ann", 1, "x", entry=Entry("c", 7, "message", 1)), {})
