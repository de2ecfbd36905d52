"""The last look: what the stores hold and what every user is shown, once everything has healed and come to rest.

Logs, members, statuses and rows are read from the tables past the nodes; inboxes and histories through the nodes, as
any client would; what is left over in the keyspace from its servers. The checker holds the history against it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec

from tidings.clock import Clock
from tidings.messaging.threads.records import FOLLOWS, followed_in, parts_of
from tidings.messaging.unread.verify import Wrong
from tidings.model import Content, Entry, Head, Member, MemberChange, Ranges, Row, Status
from tidings.node.graph import Core, build
from tidings.node.stores import Stores, open_stores
from tidings.stores.tables.records import of_user
from tidings.stores.tables.values import Waiting
from tidings_proof.judge.dump_finding import File, Sought, read_files, seek_words, stored_files
from tidings_proof.judge.history import History, Seen, seen
from tidings_proof.people.finding import Told
from tidings_proof.people.more import FILTERS, FLEETING
from tidings_proof.people.wire import rest
from tidings_proof.people.workload import Conversation, Workload
from tidings_proof.world.valkey import Speaker
from tidings_proof.world.world import World

T = TypeVar("T")
Thread = tuple[str, int]  # conversation, root
_PAGE = 100
_TRIES = 50  # of a request, a tenth of a second apart
_POLL_S = 0.25


class Log(msgspec.Struct, frozen=True):
    """One conversation, past the nodes."""

    head: Head
    entries: list[Entry]
    members: dict[str, Member]
    statuses: dict[str, Status]


class Shown(msgspec.Struct, frozen=True):
    """Shown: what one user sees, through the nodes."""

    inbox: list[dict[str, Any]]
    total_unread: int
    unread_conversations: int
    histories: dict[str, list[Seen]]  # oldest first
    total_mentions: int = 0
    filters: dict[str, list[dict[str, Any]]] = {}  # rows of each filter of the inbox
    saved: frozenset[tuple[str, int]] = frozenset()  # (conversation, seq)
    threads: dict[Thread, int] = {}  # those with something unread, and how much
    unread_threads: int = 0  # as the totals say it


class Followed(msgspec.Struct, frozen=True):
    """A thread that a user follows, past the nodes."""

    thread: Thread
    cursor_seq: int
    ranges: Ranges


class Dump(msgspec.Struct, frozen=True):
    logs: dict[str, Log] = {}
    rows: dict[str, list[Row]] = {}  # of each user
    shown: dict[str, Shown] = {}
    pending: list[Waiting] = []
    wrong: list[Wrong] = []  # the verdict of `tidings unread verify`
    left: list[str] = []  # work under way that nobody finishes
    unseen: list[str] = []  # what could not be looked at, and why
    is_raw: bool = True  # False: the stores were not ours to read
    blocks: dict[str, frozenset[str]] = {}  # user -> people whom they have blocked
    follows: dict[str, list[Followed]] = {}  # of each user
    files: list[File] = []
    stored: dict[str, str] | None = None  # the content of each file in the blobs; None: nobody looked
    sought: list[Sought] = []
    taken_ms: int = 0  # when
    looked_for: int = 0  # texts that must be nowhere
    remains: list[str] = []  # and where they are all the same


async def take_dump(world: World, people: Workload, within_s: float) -> Dump:
    """`within_s`: until everything under way is finished, dead nodes' work and notes of lost answers included."""
    users = [*people.users, *people.idle]
    unseen: list[str] = []
    await _at_rest(people.history, within_s, lambda: _burning(world, people))
    if not world.is_ours:
        shown = {user_id: await _shown(world, user_id, unseen) for user_id in users}
        logs = {c.id: _log_shown(c, shown[c.members[0]].histories.get(c.id, [])) for c in people.conversations.values()}
        return Dump(logs, shown=shown, unseen=unseen, is_raw=False)
    async with open_stores(world.settings, Clock(), is_guest=True) as stores:
        core = build(stores)
        left = await _at_rest(people.history, within_s, lambda: _leftovers(world, core, people))
        wrong = await _at_rest(people.history, within_s, lambda: _wrong(core))
        shown = {user_id: await _shown(world, user_id, unseen) for user_id in users}
        logs = {id_: log for id_ in people.conversations if (log := await _log(stores, id_)) is not None}
        rows = {user_id: await _rows(stores, user_id) for user_id in users}
        pending = [one for user_id in users for one in await stores.tables.pending.of_user(user_id)]
        return Dump(
            logs,
            rows,
            shown,
            pending,
            wrong,
            left,
            unseen,
            blocks={user_id: await _blocks(stores, user_id) for user_id in users},
            follows={user_id: await _follows(stores, user_id) for user_id in users},
            files=await read_files(world, people),
            stored=await stored_files(core, {shared.conversation_id for shared in people.shared}),
            sought=await seek_words(world, people, _standing(people, logs), people.history),
            taken_ms=core.clock.now_ms(),
        )


async def _at_rest(history: History, within_s: float, look: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """Check again and again until nothing is wrong or the time is over; return what is still wrong."""
    deadline_s = history.now_s() + within_s
    while (found := await look()) and history.now_s() < deadline_s:
        await asyncio.sleep(_POLL_S)
    return found


async def _burning(world: World, people: Workload) -> list[str]:
    """Return the messages that end by themselves and have not ended yet. Their end would change what is looked at."""
    acked = {(id_, seq) for one in people.devices for id_, name, seq, _ in one.acked if name.endswith(FLEETING)}
    found: list[str] = []
    for conversation_id in {id_ for id_, _ in acked}:
        reader = people.conversations[conversation_id].members[0]
        entries = await _history(world, reader, conversation_id, [])
        ended = {(conversation_id, one.target_seq) for one in entries if one.kind == "delete"}
        found += [f"{id_} {seq}" for id_, seq in acked - ended if id_ == conversation_id]
    return found


async def _wrong(core: Core) -> list[Wrong]:
    return (await core.verify.run(None, repair=False)).wrong


# --- past the nodes ---------------------------------------------------------------------------------


async def _log(stores: Stores, id_: str) -> Log | None:
    tables = stores.tables
    entries: list[Entry] = []
    after = 0
    while page := await tables.log.page(id_, after=after, before=1 << 53, limit=500, newest_first=False):
        entries += page
        after = page[-1].seq_no
    head = (await tables.conversations.heads([id_])).get(id_)
    if head is None:
        return None
    members = {member.user_id: member for member in await tables.conversations.members(id_)}
    statuses = {status.user_id: status for status in await tables.statuses.of_conversation(id_)}
    return Log(head, entries, members, statuses)


def _log_shown(conversation: Conversation, entries: list[Seen]) -> Log:
    """Where the tables cannot be read, the log is what its leader, who never leaves, is shown."""
    id_ = conversation.id
    log = [
        Entry(
            conversation_id=id_,
            seq_no=one.seq,
            kind=one.kind,  # type: ignore[arg-type]
            sent_ms=one.seq,
            message_id=one.message_id,
            sender_id=one.sender_id,
            content=Content(one.text) if one.text is not None else None,
            member=MemberChange(one.action, one.about) if one.action else None,  # type: ignore[arg-type]
            target_seq=one.target_seq,
            is_deleted=one.is_deleted,
        )
        for one in entries
    ]
    return Log(Head(conversation_id=id_, kind="group", created_ms=0, head=len(log)), log, {}, {})


async def _rows(stores: Stores, user_id: str) -> list[Row]:
    return await stores.tables.inboxes.scan(user_id, after_id="", limit=1_000)


async def _blocks(stores: Stores, user_id: str) -> frozenset[str]:
    return frozenset(one.blocked_id for one in await stores.tables.people.blocks_of(user_id))


async def _follows(stores: Stores, user_id: str) -> list[Followed]:
    records = await stores.tables.records.page(of_user(user_id), FOLLOWS, limit=1_000)
    found = await followed_in(stores.tables, user_id, records)
    return [Followed(parts_of(one.thread_id), one.status.cursor_seq, one.status.ranges) for one in found]


def _standing(people: Workload, logs: dict[str, Log]) -> Iterator[Told]:
    """The words whose messages are there as they were written."""
    written = {
        (id_, entry.sender_id, entry.message_id)
        for id_, log in logs.items()
        for entry in log.entries
        if entry.kind == "message" and not entry.is_deleted and entry.edited_ms is None
    }
    return (one for one in people.told if (one.conversation_id, one.user_id, one.message_id) in written)


async def _leftovers(world: World, core: Core, people: Workload) -> list[str]:
    """Marks of work under way, nodes that are not there, deliveries that devices have acknowledged long ago."""
    speakers = world.keyspace.speakers()
    prefix = world.keyspace.prefix
    living = {f"{node.name}-{node.lives}" for node in world.nodes}
    found: list[str] = []
    for speaker in speakers:
        found += await asyncio.to_thread(_marks, speaker, prefix, living)
    for user_id in people.users:
        waiting = await core.tables.pending.of_user(user_id)
        statuses = await core.tables.statuses.get(user_id, [one.conversation_id for one in waiting])
        for one in waiting:
            # What was delivered, or waits for who has left, is swept away later: a node may die before it is cleared.
            status = statuses.get(one.conversation_id)
            members = {member.user_id for member in await core.tables.conversations.members(one.conversation_id)}
            if user_id in members and (status is None or status.delivered_seq < one.last_seq):
                found.append(f"pending: {user_id} {one.conversation_id} {one.first_seq}-{one.last_seq}")
    return found


def _marks(speaker: Speaker, prefix: str, living: set[str]) -> list[str]:
    return list(_marked(speaker, prefix, living))


def _marked(speaker: Speaker, prefix: str, living: set[str]) -> Iterator[str]:
    for key in speaker.scan(f"{prefix}open:*"):
        yield f"{key}: {speaker.ask('SMEMBERS', key)}"
    for key in speaker.scan(f"{prefix}conv:*"):
        fields = speaker.ask("HKEYS", key)
        # Of a dead node it is only a name: what must be finished is listed in its open set, which may be lost.
        yield from (f"{key}: {field}" for field in fields if field.removeprefix("open:") in living)
    nodes = speaker.ask("ZRANGE", f"{prefix}nodes", 0, -1)
    if isinstance(nodes, list):
        yield from (f"nodes: {name} is listed and dead" for name in nodes if name not in living)


# --- through the nodes ------------------------------------------------------------------------------


async def _shown(world: World, user_id: str, unseen: list[str]) -> Shown:
    """Read what the user sees. A view that cannot be read is noted in `unseen`, and is a finding of its own."""
    try:
        return await _look(world, user_id, unseen)
    except RuntimeError as error:
        unseen.append(str(error))
        return Shown([], 0, 0, {})


async def _look(world: World, user_id: str, unseen: list[str]) -> Shown:
    rows, totals = await _inbox(world, user_id)
    filters = {name: (await _inbox(world, user_id, name))[0] for name in FILTERS}
    ids = [row["conversation_id"] for row in (*rows, *filters["archived"])]
    histories = {id_: await _history(world, user_id, id_, unseen) for id_ in ids}
    return Shown(
        rows,
        totals["total_unread"],
        totals["unread_conversations"],
        histories,
        totals.get("total_mentions") or 0,
        filters,
        await _saved(world, user_id),
        await _threads(world, user_id),
        totals.get("unread_threads") or 0,
    )


async def _inbox(world: World, user_id: str, name: str = "") -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All rows of the inbox or of one filter, and the last page with its totals."""
    rows: list[dict[str, Any]] = []
    path = f"/v1/inbox?limit=50{f'&filter={name}' if name else ''}"
    page = await _get(world, user_id, path)
    while True:
        rows += page["conversations"]
        if not page["next_cursor"]:
            return rows, page
        page = await _get(world, user_id, f"{path}&cursor={page['next_cursor']}")


async def _threads(world: World, user_id: str) -> dict[Thread, int]:
    """All rows of the list of unread threads."""
    found: dict[Thread, int] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = await _get(world, user_id, f"/v1/threads?filter=unread{f'&cursor={cursor}' if cursor else ''}")
        found |= {(row["conversation_id"], row["thread_seq"]): row["unread_count"] for row in page["threads"]}
        cursor = page.get("next_cursor")
    return found


async def _saved(world: World, user_id: str) -> frozenset[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    cursor = ""
    while True:
        page = await _get(world, user_id, f"/v1/saved{f'?cursor={cursor}' if cursor else ''}")
        found |= {(one["conversation_id"], one["message"]["seq"]) for one in page["saved"]}
        cursor = page.get("next_cursor")
        if not cursor:
            return frozenset(found)


async def _history(world: World, user_id: str, id_: str, unseen: list[str]) -> list[Seen]:
    """All that the user may see, oldest first. A page that ends at a gap is asked for again."""
    entries: list[Seen] = []
    after, tries = 0, 0
    while tries < _TRIES:
        page = await _get(world, user_id, f"/v1/conversations/{id_}/messages?after_seq={after}&limit={_PAGE}")
        entries += [seen(message) for message in reversed(page["messages"])]
        if page["next_after_seq"] is None:
            return entries
        if not page["messages"]:
            tries += 1
            await asyncio.sleep(0.1)
        after = entries[-1].seq if entries else after
    unseen.append(f"the history of {id_} never ends: {user_id} is at {after}")
    return entries


async def _get(world: World, user_id: str, path: str) -> Any:
    answer: Any = None
    for n in range(_TRIES):
        try:
            status, answer = await rest(world.ports()[n % len(world.fronts)], world.token(user_id), "GET", path)
            if status == 200 and not (isinstance(answer, dict) and answer.get("stale")):
                return answer
        except OSError as error:
            answer = error
        await asyncio.sleep(0.1)
    raise RuntimeError(f"GET {path} as {user_id} was never answered: {answer}")
