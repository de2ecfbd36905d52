"""Records of threads: what the tables keep of a thread beside the log. All of it changes in the commit of a reply.

- `threads`, of the conversation: one for each root. It says how many replies there are, and who follows.
- `replies`, of the conversation: one for each reply, with the facts that decide counts. So a thread is counted and
  paged without the rest of its log.
- `follows`, of the user: one for each followed thread, with the user's cursor. Its version is that of the counts.

A user follows a thread when its record says so. A follow belongs to one membership: a member who leaves follows
nothing more, and one who comes back begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from tidings.errors import NotFound
from tidings.ids import is_id
from tidings.model import EVERYBODY, Entry, Head, Member, Ranges, Row, Status
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Put, Record, RecordKey, Records, of_conversation, of_user, seq_name

THREADS, REPLIES, FOLLOWS = "threads", "replies", "follows"
FOLLOWERS_MAX = 1_000  # of one thread: a record of DynamoDB holds 400 KB, and a reply costs an index call for each
_PAGE = 500  # replies read at once


class Follower(msgspec.Struct, frozen=True, array_like=True):
    since_seq: int  # the joined_seq of the membership that it belongs to
    reply_seq: int = 0  # the reply that made the user follow; 0: the user asked


class Thread(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a root. `last_*` are of the last reply that is not silent; a silent one moves nothing."""

    replies: int = 0  # without the deleted ones
    last_seq: int = 0  # 0: there was no reply yet
    last_ms: int = 0
    followers: dict[str, Follower] = {}

    def is_followed_by(self, one: Row | Member) -> bool:
        return one.user_id in self.followers and self.followers[one.user_id].since_seq == one.joined_seq


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    sender_id: str | None = None
    is_silent: bool = False
    is_deleted: bool = False
    mentions: tuple[str, ...] = ()

    def mentions_user(self, user_id: str) -> bool:
        return user_id in self.mentions or self.mentions == (EVERYBODY,)


class Follow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one follower: everything up to the cursor, and the ranges above it, is read."""

    cursor_seq: int = 0
    ranges: Ranges = ()


class Followed(msgspec.Struct, frozen=True):
    """A thread that a user follows, as the tables have it."""

    thread_id: str
    row: Row
    head: Head
    thread: Thread
    status: Status


class NotFollowed(NotFound):
    """The thread exists, and the user does not follow it."""


_thread = msgspec.json.Decoder(Thread).decode
_reply = msgspec.json.Decoder(Reply).decode
_follow = msgspec.json.Decoder(Follow).decode
_encode = msgspec.json.Encoder().encode

# --- names ----------------------------------------------------------------------------------------


def thread_id(conversation_id: str, thread_seq: int) -> str:
    """The id of a thread in the index. No conversation can have it."""
    return f"{conversation_id}/{thread_seq}"


def parts_of(id_: str) -> tuple[str, int]:
    """The conversation and the root of a thread."""
    conversation_id, _, thread_seq = id_.partition("/")
    return conversation_id, int(thread_seq)


def is_thread_id(id_: str) -> bool:
    conversation_id, _, thread_seq = id_.partition("/")
    return is_id(conversation_id) and thread_seq.isdecimal() and len(thread_seq) < 17


def thread_key(conversation_id: str, thread_seq: int) -> RecordKey:
    return RecordKey(of_conversation(conversation_id), THREADS, seq_name(thread_seq))


def follow_key(user_id: str, conversation_id: str, thread_seq: int) -> RecordKey:
    return RecordKey(of_user(user_id), FOLLOWS, f"{conversation_id} {seq_name(thread_seq)}")


def reply_name(thread_seq: int, seq_no: int) -> str:
    return f"{seq_name(thread_seq)} {seq_name(seq_no)}"


def reply_key(reply: Entry) -> RecordKey:
    assert reply.thread_seq is not None
    return RecordKey(of_conversation(reply.conversation_id), REPLIES, reply_name(reply.thread_seq, reply.seq_no))


# --- puts -----------------------------------------------------------------------------------------


def put_thread(key: RecordKey, thread: Thread, version: int | None) -> Put:
    return Put(*key, _encode(thread), expected=version)


def put_follow(key: RecordKey, follow: Follow, version: int | None) -> Put:
    return Put(*key, _encode(follow), expected=version)


def put_reply(entry: Entry, *, is_deleted: bool = False) -> Put:
    """`entry` is the reply itself."""
    is_silent = entry.content is not None and entry.content.silent
    return Put(*reply_key(entry), _encode(Reply(entry.sender_id, is_silent, is_deleted, entry.mentions)))


# --- reads ----------------------------------------------------------------------------------------


def thread_of(record: Record | None) -> tuple[Thread, int]:
    """The thread and the version of its record."""
    return (_thread(record.value), record.version) if record is not None else (Thread(), 0)


def follow_of(record: Record | None) -> tuple[Follow, int]:
    return (_follow(record.value), record.version) if record is not None else (Follow(), 0)


async def read_one(records: Records, key: RecordKey) -> Record | None:
    return (await records.get(key.owner, key.collection, [key.name])).get(key.name)


async def read_threads(records: Records, ids: Iterable[str]) -> dict[str, Thread]:
    """The threads of these ids, as far as they exist."""
    seqs: dict[str, list[int]] = {}
    for id_ in ids:
        conversation_id, thread_seq = parts_of(id_)
        seqs.setdefault(conversation_id, []).append(thread_seq)
    found = await asyncio.gather(
        *(records.get(of_conversation(id_), THREADS, [seq_name(one) for one in ones]) for id_, ones in seqs.items())
    )
    return {
        thread_id(conversation_id, int(name)): _thread(record.value)
        for conversation_id, by_name in zip(seqs, found, strict=True)
        for name, record in by_name.items()
    }


async def load_followed(tables: Tables, user_id: str, id_: str) -> Followed:
    """Read one thread of one user. Raises NotFound: there is no such thread; NotFollowed."""
    conversation_id, thread_seq = parts_of(id_)
    record = await read_one(tables.records, follow_key(user_id, conversation_id, thread_seq))
    if record is not None and (found := await followed_in(tables, user_id, [record])):
        return found[0]
    if not await read_threads(tables.records, [id_]):
        raise NotFound("no such thread")
    raise NotFollowed("you do not follow this thread")


async def followed_in(tables: Tables, user_id: str, records: Sequence[Record]) -> list[Followed]:
    """The threads that the user really follows, of these records of follows."""
    places = [(name[0], int(name[1])) for name in (record.name.split(" ") for record in records)]
    ids = list(dict.fromkeys(conversation_id for conversation_id, _ in places))
    rows, heads, threads = await asyncio.gather(
        tables.inboxes.rows(user_id, ids),
        tables.conversations.heads(ids),
        read_threads(tables.records, [thread_id(*place) for place in places]),
    )
    found: list[Followed] = []
    for record, (conversation_id, thread_seq) in zip(records, places, strict=True):
        id_ = thread_id(conversation_id, thread_seq)
        row, head, thread = rows.get(conversation_id), heads.get(conversation_id), threads.get(id_)
        if row is None or head is None or thread is None or row.is_invited or not thread.is_followed_by(row):
            continue
        follow = _follow(record.value)
        status = Status(
            conversation_id=id_,
            user_id=user_id,
            read_seq=follow.cursor_seq,
            cursor_seq=follow.cursor_seq,
            ranges=follow.ranges,
            version=record.version,
        )
        found.append(Followed(id_, row, head, thread, status))
    return found


async def read_replies(
    records: Records, id_: str, *, after: int = 0, before: int = 1 << 53, newest_first: bool, limit: int = _PAGE
) -> list[tuple[int, Reply]]:
    """(seq_no, reply) of the replies with after < seq_no < before, from the chosen end."""
    conversation_id, thread_seq = parts_of(id_)
    found = await records.page(
        of_conversation(conversation_id),
        REPLIES,
        limit=limit,
        after=reply_name(thread_seq, after),
        before=reply_name(thread_seq, before) if before < 10**12 else f"{seq_name(thread_seq)}!",
        newest_first=newest_first,
    )
    return [(int(record.name.split(" ")[1]), _reply(record.value)) for record in found]
