"""A draft: one send, edit, delete or member change on its way through the stages.

It ends in one of three ways: stored (it has an entry), duplicate (its entry was stored before), or refused (it has a
problem). Its sender gets exactly one answer, whatever happens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import getsizeof
from typing import Protocol

import msgspec

from tidings.errors import IdConflict, Problem
from tidings.model import KINDS, Content, ContentPatch, Entry, EntryKind, MemberChange, Sent, digest_of
from tidings.stores.tables.records import Put, RecordKey

Answer = Sent | Problem
_DRAFT_BYTES = 1024  # of a draft beside its content: the struct, its ids and the closure of its reply
_DATA_BYTES = 32 * 1024  # of the application's data in a content: 8 KiB of JSON take several times that as objects


def _unheard(answer: Answer) -> None:
    """Nobody waits for the answer."""


class Companion(Protocol):
    """Records that are committed together with the entry of a draft: what a feature keeps beside the log.

    A record is put once in a commit, so drafts whose companions share a key go in different groups.
    """

    @property
    def keys(self) -> frozenset[RecordKey]:
        """The records that it may put: a few, for they count as entries of the group."""
        ...

    @property
    def last_seq(self) -> int:
        """The last entry that changed the records, as read: an entry below it is numbered again. 0: none."""
        ...

    async def read(self) -> None:
        """Read the records anew: one of them has changed since. Raises a Problem where the entry may not be stored."""
        ...

    def puts(self, entry: Entry) -> Sequence[Put]:
        """The changes that the entry brings, each with the version that was read."""
        ...


class Companions:
    """Several companions of one draft. They share no record."""

    def __init__(self, *companions: Companion) -> None:
        self._companions = companions
        self.keys = frozenset(key for one in companions for key in one.keys)

    @property
    def last_seq(self) -> int:
        return max(one.last_seq for one in self._companions)

    async def read(self) -> None:
        for one in self._companions:
            await one.read()

    def puts(self, entry: Entry) -> Sequence[Put]:
        return [put for one in self._companions for put in one.puts(entry)]


class Draft(msgspec.Struct, kw_only=True, eq=False):
    """One send, edit, delete or member change. `reply` is called exactly once, on the event loop."""

    sender_id: str
    conversation_id: str
    message_id: str
    reply: Callable[[Answer], None] = _unheard
    content: Content | None = None
    timestamp: int | None = None
    origin: str | None = None  # the connection it came from; None: REST
    kind: EntryKind = "message"
    target: Entry | None = None  # of an edit or delete, as last read
    patch: ContentPatch | None = None  # of an edit: its content is made from this and the target's
    change: MemberChange | None = None
    target_seq: int | None = None  # of a reaction or pin
    companion: Companion | None = None
    is_unread: bool = False  # its companion has read nothing so far
    authors: tuple[str, ...] = ()  # users beside the sender who act in it: all of them must be members
    is_paid: bool = False  # its authors were charged one by one, in another class than `send`
    plain_digest: bytes = b""  # of an edit or delete: of what its author asked for
    digest: bytes = b""
    here: tuple[str, ...] | None = None  # of `mention: here`: those who were online
    is_invited: bool = False  # of a member change: its sender joins by an invitation
    is_of_server: bool = False  # the server wants it: it needs no right and no budget of its sender
    is_plain: bool = False  # a text and nothing else, as most are: no part that knows more than texts is asked
    size_bytes: int = 0  # the memory that it takes while it waits
    # The stages fill in the rest.
    has_accepted: bool = False  # it waited until its sender had accepted the request that it answers
    arrived_s: float = 0.0
    is_abandoned: bool = False  # its connection is gone, or gave it up: no later send is held behind it
    place: int = 0  # in the order of arrival, among all drafts of the node
    seq_no: int = 0
    sent_ms: int = 0
    is_known: bool = False  # the keyspace gave a number to its id before
    entry: Entry | None = None
    is_duplicate: bool = False
    problem: Problem | None = None
    slot: tuple[str, int] | None = None  # the limiter's slot that it used: token, position
    is_rewritten: bool = False  # the before-send hook changed its content
    refusal: Problem | None = None  # the hook refused its words: it is stored without them, and its author is told
    followers: list[Draft] | None = None  # drafts with the same id in the same batch: they get the same answer

    @property
    def says_a_text(self) -> bool:
        """It is a new message that is a text and nothing else."""
        is_alone = self.companion is None and self.target is None and self.change is None
        content = self.content
        return is_alone and content is not None and KINDS[self.kind].is_target and is_plain(content)

    @property
    def is_overtaken(self) -> bool:
        """An entry with a higher number has changed the same message, or the same records, already."""
        if self.is_plain:
            return False
        if self.companion is not None and self.companion.last_seq > self.seq_no:
            return True
        return self.target is not None and (self.target.edit_seq or 0) > self.seq_no

    @property
    def is_summarized(self) -> bool:
        """It changes what is shown beside another message: its reactions, its pin or its thread."""
        if self.is_plain:
            return False
        is_reply = self.content is not None and self.content.thread_seq is not None
        return KINDS[self.kind].summarizes or is_reply

    @property
    def id_(self) -> tuple[str, str, str]:
        return self.conversation_id, self.sender_id, self.message_id

    @property
    def dedupe_field(self) -> str:
        """The field under which the keyspace keeps the number of this id."""
        return f"{self.sender_id}:{self.message_id}"

    def is_in(self, row: Entry) -> bool:
        """Say whether the row holds this draft, no matter which try stored it."""
        return (row.sender_id, row.message_id) == (self.sender_id, self.message_id)

    def says(self, row: Entry) -> bool:
        """Say whether the row was stored with this content. The digest of a row goes when its content goes."""
        if not row.digest:
            return True
        plain = self.whole_digest()  # rows of earlier versions have it, and its length tells them apart
        return row.digest == (plain if len(row.digest) == len(plain) else self.digest)

    def whole_digest(self) -> bytes:
        """The plain digest of all that the draft says. It is never stored."""
        return self.plain_digest or digest_of(self.content)

    def answer(self) -> Answer:
        if self.problem is not None:
            return self.problem
        assert self.entry is not None
        is_other = self._is_other(self.entry) if self.is_duplicate else self.is_rewritten
        return Sent(self.entry, self.is_duplicate, is_other)

    def _is_other(self, entry: Entry) -> bool:
        """Whether the author of a resend must be told the stored content: the hook changed it at an earlier try."""
        if self.content is None or entry.content is None:
            return self.is_rewritten
        return (self.content.text, self.content.data) != (entry.content.text, entry.content.data)

    def answer_follower(self, follower: Draft) -> Answer:
        if self.problem is None and follower.digest != self.digest:
            return IdConflict()
        answer = self.answer()
        return Sent(answer.entry, True, answer.is_other) if isinstance(answer, Sent) else answer


def is_plain(content: Content) -> bool:
    """Whether the content is a text and nothing else, as most are."""
    return content == Content(content.text)


def size_of(draft: Draft) -> int:
    """The memory of a draft that waits: mostly its text, whose characters take one to four bytes each."""
    if draft.content is None:
        return _DRAFT_BYTES
    return _DRAFT_BYTES + getsizeof(draft.content.text) + (_DATA_BYTES if draft.content.data is not None else 0)


def keyed_digest(secret: bytes, id_: tuple[str, str, str], plain: bytes) -> bytes:
    """The digest that a row keeps: of (conversation_id, sender_id, message_id) and of the content's own digest.

    The key keeps short texts from being found by trying all of them, and the ids make equal texts differ.
    """
    digest = _hash_of(secret).copy()  # half the time of a new one with the key
    digest.update("\0".join(id_).encode() + b"\0" + plain)
    return digest.digest()


@lru_cache(maxsize=8)  # a process has one secret, and a test has more
def _hash_of(secret: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(key=secret[:64], digest_size=16)
