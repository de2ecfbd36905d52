"""Entries of an import: messages of a source as entries of the log, with the records that are committed with them.

A message with reactions is followed by one entry of kind reaction, as if all had reacted at once. So whoever applies
the log ends with the summary that stands beside the message. A reply is counted in the record of its thread. The
members who follow it are those who would: the author of the root, the authors of replies, and everybody named in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from tidings.bounds import REACTION_KEY_BYTES_MAX
from tidings.errors import BadRequest
from tidings.messaging.files.record import FileRecord
from tidings.messaging.files.record import put_of as put_file
from tidings.messaging.people.mentions import mentioned
from tidings.messaging.reactions.reactions import REACTION_KEYS_MAX
from tidings.messaging.summaries import Summary, key_of
from tidings.messaging.summaries import put_of as put_summary
from tidings.messaging.threads.records import FOLLOWERS_MAX, Follower, Thread, put_reply, put_thread, thread_key
from tidings.messaging.transfer.sources.source import ImportedMessage
from tidings.model import Content, Entry
from tidings.stores.tables.records import Put

MESSAGE_WEIGHT = 5  # entries and records that a message without files is at most: itself, its reactions, its thread
Files = dict[str, FileRecord]  # by file_id


class Chunk:
    """Entries that wait for their commit. It numbers them, and knows the numbers of the roots of threads."""

    def __init__(self, conversation_id: str, seq_no: int, sent_ms: int, joined: Mapping[str, int]) -> None:
        self.conversation_id = conversation_id
        self._joined = joined  # member -> joined_seq
        self.seq_no = seq_no  # of the last entry
        self.roots: dict[str, int] = {}  # message_id -> seq_no
        self.authors: dict[int, str | None] = {}  # root -> its sender
        self.messages = 0
        self._sent_ms = sent_ms
        self._entries: list[Entry] = []
        self._puts: list[Put] = []
        self.threads: dict[int, Thread] = {}  # by root, as far as they are known
        self._changed: dict[int, None] = {}  # roots whose thread has a new reply

    @property
    def weight(self) -> int:
        return len(self._entries) + len(self._puts) + len(self._changed)

    def add(self, message: ImportedMessage, files: Files) -> None:
        """Raises BadRequest."""
        self.messages += 1
        if message.entry is not None:
            self._restore(message.entry)
        else:
            self._number(message, files)
        seq_no = self._entries[-1].seq_no
        if message.is_root:
            self.roots[message.message_id], self.authors[seq_no] = seq_no, message.sender_id
        for file_id, value in files.items():
            attached = value.attached_to(seq_no, message.message_id)
            self._puts.append(put_file(self.conversation_id, file_id, attached, None))
        if message.reactions:
            self._react(message, seq_no)

    def take(self) -> tuple[list[Entry], list[Put]]:
        threads = [
            put_thread(thread_key(self.conversation_id, root), self.threads[root], None) for root in self._changed
        ]
        taken = self._entries, [*self._puts, *threads]
        self._entries, self._puts, self.messages, self._changed = [], [], 0, {}
        return taken

    def _restore(self, entry: Entry) -> None:
        if entry.seq_no <= self.seq_no:
            raise BadRequest(f"{self.conversation_id} has an entry {entry.seq_no} already: import into an empty one")
        self.seq_no, self._sent_ms = entry.seq_no, max(entry.sent_ms, self._sent_ms)
        self._entries.append(entry)

    def _number(self, message: ImportedMessage, files: Files) -> None:
        content = Content(
            message.text,
            message.data,
            files=tuple(value.facts(file_id) for file_id, value in files.items()),
            mentions=message.mentions,
            mention=message.mention,
            imported=True,
            thread_seq=self.thread_of(message),
        )
        self._append(
            Entry(
                conversation_id=self.conversation_id,
                seq_no=self.seq_no + 1,
                kind="message",
                sent_ms=max(message.sent_ms, self._sent_ms),
                message_id=message.message_id,
                sender_id=message.sender_id,
                content=content,
                timestamp=message.sent_ms,
                edited_ms=message.edited_ms,
                thread_seq=content.thread_seq,
                is_uncounted=content.is_uncounted,
                mentions=mentioned(content),
            )
        )
        if content.thread_seq is not None:
            self._reply(content.thread_seq, self._entries[-1])

    def thread_of(self, message: ImportedMessage) -> int | None:
        """The number of the message that began its thread."""
        return self.roots.get(message.root) if message.root is not None else None

    def _reply(self, root: int, reply: Entry) -> None:
        known = self.threads.get(root, Thread())
        named = reply.content.mentions if reply.content is not None else ()
        new = {id_ for id_ in (self.authors.get(root), reply.sender_id, *named) if id_ and id_ in self._joined}
        followers = known.followers | {id_: Follower(self._joined[id_]) for id_ in sorted(new - known.followers.keys())}
        self.threads[root] = Thread(
            known.replies + 1, reply.seq_no, reply.sent_ms, dict(islice(followers.items(), FOLLOWERS_MAX))
        )
        self._changed[root] = None
        self._puts.append(put_reply(reply))

    def _react(self, message: ImportedMessage, target_seq: int) -> None:
        said = {key: users for key, users in message.reactions[:REACTION_KEYS_MAX] if users and _is_key(key)}
        if not said:
            return
        self._append(
            Entry(
                conversation_id=self.conversation_id,
                seq_no=self.seq_no + 1,
                kind="reaction",
                sent_ms=self._sent_ms,
                message_id=f"{message.message_id[:50]}-reactions",
                sender_id=next(iter(said.values()))[0],
                content=Content(reactions=tuple((key, users, ()) for key, users in said.items())),
                target_seq=target_seq,
            )
        )
        summary = Summary({key: list(users) for key, users in said.items()}, reactions_seq=self.seq_no)
        self._puts.append(put_summary(key_of(self.conversation_id, target_seq), summary, 0))

    def _append(self, entry: Entry) -> None:
        self.seq_no, self._sent_ms = entry.seq_no, entry.sent_ms
        self._entries.append(entry)


def _is_key(key: str) -> bool:
    return 0 < len(key.encode()) <= REACTION_KEY_BYTES_MAX
