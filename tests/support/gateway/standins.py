"""In-memory stand-ins of the use cases: the gateway's own seam, so that its tests can hold, fail or watch a call."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tidings.errors import Close, NotFound, Problem, RateLimited
from tidings.messaging.conversations.directory import View
from tidings.messaging.limits.in_flight import InFlight
from tidings.messaging.people.find import Person
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.reading.receipts import MessageReceipts, Times
from tidings.messaging.search.search import Found, Hit, Question
from tidings.messaging.send.draft import Draft
from tidings.messaging.threads.records import Thread
from tidings.messaging.threads.threads import ThreadItem, ThreadPage
from tidings.messaging.unread.read_together import Reading, Tell
from tidings.model import (
    Beside,
    Content,
    ContentPatch,
    Entry,
    Head,
    HistoryPage,
    InboxItem,
    InboxPage,
    Member,
    ReactionCount,
    ReadState,
    Row,
    Sent,
    Totals,
    User,
)
from tidings.pushes import ConversationRemoved, Event, Presence, Resumed
from tidings.routing.hub import Connection, Hub
from tidings.stores.tables.values import ApiKey, Block, Override, Preferences

MESSAGE_KEYS = [
    "seq", "kind", "message_id", "sender_id", "text", "ts", "sent_at", "deleted", "edited_at", "target_seq", "member",
]  # fmt: skip
INBOX_KEYS = [
    "conversation_id", "kind", "name", "avatar_url", "last_message_preview", "last_message_ts", "last_seq",
    "unread_count", "unread_capped", "read_seq", "first_unread_seq", "muted", "pinned", "archived",
]  # fmt: skip


class Accounts:
    def __init__(self) -> None:
        self.profiles: dict[str, User] = {}
        self.keys: dict[str, ApiKey] = {}
        self.user_reads = self.key_reads = 0
        self.error: Exception | None = None

    async def user(self, user_id: str) -> User | None:
        self.user_reads += 1
        if self.error is not None:
            raise self.error
        return self.profiles.get(user_id)

    async def users(self, user_ids: Iterable[str]) -> dict[str, User]:
        return {user_id: self.profiles[user_id] for user_id in user_ids if user_id in self.profiles}

    async def put_user(self, user: User) -> None:
        known = self.profiles.get(user.user_id)
        after = max(user.tokens_valid_after, known.tokens_valid_after if known else 0)
        self.profiles[user.user_id] = msgspec.structs.replace(user, tokens_valid_after=after)

    async def api_key(self, key_hash: str) -> ApiKey | None:
        self.key_reads += 1
        return self.keys.get(key_hash)

    async def put_api_key(self, key: ApiKey) -> None:
        self.keys[key.key_hash] = key

    async def api_keys(self) -> list[ApiKey]:
        self.key_reads += 1
        return sorted(self.keys.values(), key=lambda key: (key.name, key.created_ms, key.key_hash))

    async def remove_api_key(self, key_hash: str) -> bool:
        return self.keys.pop(key_hash, None) is not None

    @property
    def secret(self) -> str:
        return "a secret of the stand-ins"

    async def store_epoch(self) -> str:
        return "epoch-1"


class Budget(msgspec.Struct, frozen=True):
    limit: int
    remaining: int
    reset_ms: int


class Limiter:
    """Admits everything, except the classes in `refused`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.costs: list[int] = []  # of what was asked
        self.together: list[int] = []  # how many users were asked about at once
        self.gate: asyncio.Event | None = None
        self.refused: set[str] = set()
        self.admits: int | None = None  # of the requests of one user that are asked about together
        self.servers: dict[str, str] = {}  # where the budgets of users are
        self.roles: dict[str, str | None] = {}
        self.key_payers: set[str] = set()  # names of keys that have a limit of their own
        self.in_flight = InFlight()

    def know(self, user_id: str, role: str | None) -> None:
        self.roles[user_id] = role

    def payer(self, key_id: str, key_name: str, role: str, user_id: str | None) -> str:
        return key_id if user_id is None or key_name in self.key_payers else user_id

    async def admit(self, class_name: str, user_id: str, cost: int = 1) -> Budget:
        self.asked.append((class_name, user_id))
        self.costs.append(cost)
        if self.gate is not None:
            await self.gate.wait()
        if class_name in self.refused:
            raise RateLimited(retry_after_ms=1200, limit=7, class_name=class_name)
        return Budget(7, 6, 1000)

    async def admit_each(self, class_name: str, wanted: Sequence[tuple[str, int]]) -> list[RateLimited | None]:
        self.together.append(len(wanted))
        answers: list[RateLimited | None] = []
        for user_id, cost in wanted:
            try:
                await self.admit(class_name, user_id, cost)
                answers.append(None)
            except RateLimited as refusal:
                answers.append(refusal)
        return answers

    async def admit_first(
        self, class_name: str, wanted: Sequence[tuple[str, int]]
    ) -> list[tuple[int, RateLimited | None]]:
        answers: list[tuple[int, RateLimited | None]] = []
        for (_, count), refusal in zip(wanted, await self.admit_each(class_name, wanted), strict=True):
            passed = 0 if refusal else count if self.admits is None else min(count, self.admits)
            over = refusal or RateLimited(retry_after_ms=1200, limit=7, class_name=class_name)
            answers.append((passed, None if passed == count else over))
        return answers

    def server_of(self, class_name: str, user_id: str) -> str:
        return self.servers.get(user_id, "")

    @asynccontextmanager
    async def admitted(self, class_name: str, user_id: str) -> AsyncIterator[None]:
        await self.admit(class_name, user_id)
        yield

    async def budgets(self, user_id: str) -> dict[str, Budget]:
        return {"send": Budget(100, 99, 60_000)}


class Log:
    """Sends, history, marks and receipts over one dict of lists. A conversation `c…` has everyone as its member."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.entries: dict[str, list[Entry]] = {}
        self.submitted: list[Draft] = []
        self.held: list[Draft] | None = None  # a list: drafts wait here until the test answers them
        self.held_receipts: list[Callable[[bool], None]] | None = None  # the same of receipts
        self.error: Exception | None = None
        self.calls: list[Any] = []
        self.is_full = False
        self.gate: asyncio.Event | None = None  # pages wait for it

    # Sends

    def submit(self, draft: Draft) -> None:
        self.submitted.append(draft)
        if self.held is not None:
            self.held.append(draft)
        else:
            self.answer(draft)

    def answer(self, draft: Draft) -> None:
        assert draft.content is not None
        stored = self.store(draft.sender_id, draft.conversation_id, draft.message_id, draft.content, draft.timestamp)
        draft.reply(stored)

    def store(
        self, sender_id: str, conversation_id: str, message_id: str, content: Content, ts: int | None
    ) -> Sent | Problem:
        if not conversation_id.startswith("c"):
            return NotFound()
        log = self.entries.setdefault(conversation_id, [])
        for entry in log:
            if (entry.sender_id, entry.message_id) == (sender_id, message_id):
                return Sent(entry, True)
        seq_no = len(log) + 1
        log.append(
            Entry(
                conversation_id=conversation_id,
                seq_no=seq_no,
                kind="message",
                sent_ms=1_000_000 + seq_no,
                message_id=message_id,
                sender_id=sender_id,
                content=content,
                timestamp=ts,
            )
        )
        return Sent(log[-1], False)

    def new_id(self) -> str:
        return "made"

    async def send(
        self,
        sender_id: str,
        conversation_id: str,
        message_id: str,
        content: Content,
        timestamp: int | None,
        companion: object = None,
    ) -> Sent:
        self._fail()
        result = self.store(sender_id, conversation_id, message_id, content, timestamp)
        if isinstance(result, Problem):
            raise result
        return result

    async def edit(
        self, user_id: str, conversation_id: str, seq_no: int, patch: ContentPatch, message_id: str | None = None
    ) -> Sent:
        self.calls.append(("edit", user_id, conversation_id, seq_no, patch.text, message_id))
        return Sent(self._entry(conversation_id, seq_no), False)

    async def delete(self, user_id: str, conversation_id: str, seq_no: int, message_id: str | None = None) -> Sent:
        self.calls.append(("delete", user_id, conversation_id, seq_no, message_id))
        return Sent(self._entry(conversation_id, seq_no), False)

    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None:
        self.calls.append(("abandon", conversation_id, message_id))

    def is_overfull(self, origin: str) -> bool:
        return self.is_full

    def forget(self, origin: str) -> None:
        self.calls.append(("forget", origin))

    def _entry(self, conversation_id: str, seq_no: int) -> Entry:
        log = self.entries.get(conversation_id, [])
        if not 0 < seq_no <= len(log):
            raise NotFound()
        return log[seq_no - 1]

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    # History

    async def page(self, user_id: str, conversation_id: str, **places: Any) -> HistoryPage:
        self.calls.append(("history", conversation_id, places))
        if self.gate is not None:
            await self.gate.wait()
        self._fail()
        if not conversation_id.startswith("c"):
            raise NotFound()
        log = self.entries.get(conversation_id, [])
        return HistoryPage(log[::-1][: places["limit"]], None, None, 1, len(log), 2, 1)

    # Receipts

    def delivered(self, user_id: str, acks: dict[str, int], tell: Callable[[bool], None] | None = None) -> None:
        self.calls.append(("delivered", user_id, acks))
        if tell is not None and self.held_receipts is not None:
            self.held_receipts.append(tell)
        elif tell is not None:
            tell(True)

    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int, *, after_id: str = "", limit: int | None = None
    ) -> MessageReceipts:
        self._entry(conversation_id, seq_no)
        if limit is not None:
            return MessageReceipts([], [after_id], [], {}, "carol")
        return MessageReceipts(["bob"], ["carol"], ["dan"], {"bob": Times(5, 7), "carol": Times(6, None)})


class Marks:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.head = 42

    async def mark_read(self, user_id: str, conversation_id: str, **marks: Any) -> ReadState:
        if self.gate is not None:
            await self.gate.wait()
        self.calls.append(("read", conversation_id, marks))
        return state_of(conversation_id, read_seq=42, unread_count=0, total_unread=9)

    async def mark_each(self, readings: Sequence[Reading], tell: Tell) -> None:
        for one in readings:
            try:
                id_, up_to_seq = one.conversation_id, one.up_to_seq
                one.outcome = await self.mark_read(one.user_id, id_, up_to_seq=up_to_seq, origin=one.origin)
            except Exception as error:
                one.outcome = error
            tell([one])

    async def mark_unread(
        self, user_id: str, conversation_id: str, *, from_seq: int, origin: str | None = None, pay: Any = None
    ) -> ReadState:
        await pay(max(0, self.head - from_seq))
        self.calls.append(("unread", conversation_id, from_seq))
        return state_of(conversation_id, read_seq=from_seq - 1, unread_count=3, total_unread=12)

    def totals_calls(self, user_id: str) -> Sequence[object]:
        return ()

    async def totals(self, user_id: str, found: Sequence[object] = ()) -> Totals:
        if self.error is not None:
            raise self.error
        return Totals(12, 3)


class ThreadsOf:
    """Two threads that the caller follows."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def page(self, user_id: str, *, limit: int, cursor: str | None, filter_name: str) -> ThreadPage:
        self.calls.append((user_id, limit, cursor, filter_name))
        thread = Thread(7, 58, 1794770399146)
        root = entry("root", seq_no=40, sender_id="alice")
        return ThreadPage([ThreadItem("c1", 40, root, False, thread, 2, 57)], "next", 1)

    async def replies(self, user_id: str, conversation_id: str, thread_seq: int, **place: Any) -> HistoryPage:
        self.calls.append((user_id, conversation_id, thread_seq, place))
        reply = entry("reply", seq_no=58, thread_seq=thread_seq, is_uncounted=True)
        return HistoryPage([reply], 58, None, 57, 60, 0, 0)

    async def follow(self, user_id: str, conversation_id: str, thread_seq: int, *, is_on: bool) -> ReadState:
        self.calls.append((user_id, conversation_id, thread_seq, is_on))
        return self._state(conversation_id, thread_seq)

    async def mark_read(self, user_id: str, conversation_id: str, thread_seq: int, **marks: Any) -> ReadState:
        self.calls.append(("read", conversation_id, thread_seq, marks))
        return self._state(conversation_id, thread_seq)

    async def mark_unread(
        self, user_id: str, conversation_id: str, thread_seq: int, *, from_seq: int, origin: Any = None, pay: Any = None
    ) -> ReadState:
        await pay(0)
        self.calls.append(("unread", conversation_id, thread_seq, from_seq))
        return self._state(conversation_id, thread_seq)

    async def read_all(self, user_id: str, conversation_id: str) -> ReadState:
        self.calls.append(("read all", conversation_id))
        return state_of(conversation_id, read_seq=42, unread_count=0, total_unread=9)

    def _state(self, conversation_id: str, thread_seq: int) -> ReadState:
        state = state_of(conversation_id, read_seq=42, unread_count=2, total_unread=9)
        return msgspec.structs.replace(state, thread_seq=thread_seq, unread_threads=1)


class InboxOf:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.has_records = True  # in the last page

    async def page(
        self, user_id: str, *, limit: int, cursor: str | None, has_records: bool = True, **which: str | None
    ) -> InboxPage:
        self.has_records = has_records
        asked = {name: value for name, value in which.items() if value is not None}
        self.calls.append((user_id, limit, cursor, *([asked] if asked else [])))
        return InboxPage([item_of(user_id, "c1")], "next", Totals(12, 3))

    async def set(self, user_id: str, conversation_id: str, change: FlagChange) -> InboxItem:
        self.calls.append((user_id, conversation_id, change))
        return item_of(user_id, conversation_id)


def entry(text: str | None = None, **fields: object) -> Entry:
    values: dict[str, object] = {"conversation_id": "c1", "seq_no": 42, "kind": "message", "sent_ms": 1000}
    values["content"] = None if text is None else Content(text)
    return msgspec.convert(values | fields, Entry)


def state_of(
    conversation_id: str,
    *,
    read_seq: int,
    unread_count: int | None,
    first_unread_seq: int | None = None,
    total_unread: int | None = None,
) -> ReadState:
    return ReadState(
        conversation_id=conversation_id,
        read_seq=read_seq,
        unread_count=unread_count,
        unread_capped=False,
        first_unread_seq=first_unread_seq,
        total_unread=total_unread,
    )


def item_of(user_id: str, conversation_id: str) -> InboxItem:
    row = Row(user_id=user_id, conversation_id=conversation_id, kind="group", name="Crew", last_seq=7)
    return InboxItem(row, state_of(conversation_id, read_seq=4, unread_count=3, first_unread_seq=5))


def resumed(conversation_id: str, to_seq: int) -> Resumed:
    """How a resume ends a conversation that it replayed up to this entry."""
    return Resumed(
        conversation_id=conversation_id,
        from_seq=1,
        to_seq=to_seq,
        complete=True,
        reset=False,
        read_seq=0,
        unread_count=None,
        delivered_all_seq=0,
        read_all_seq=0,
    )


class Blocks:
    """Blocks without a store."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, int]] = {}

    async def all(self, user_id: str) -> list[Block]:
        return [Block(user_id, blocked_id, ms) for blocked_id, ms in sorted(self.of.get(user_id, {}).items())]

    async def block(self, user_id: str, other_id: str) -> None:
        self.of.setdefault(user_id, {})[other_id] = 5

    async def unblock(self, user_id: str, other_id: str) -> None:
        self.of.get(user_id, {}).pop(other_id, None)


class Reactions:
    """Reactions to any message of a conversation that begins with c, in memory."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, int], dict[str, list[str]]] = {}

    async def react(self, user_id: str, conversation_id: str, seq_no: int, key: str, *, is_on: bool) -> Beside:
        if not conversation_id.startswith("c"):
            raise NotFound()
        users = self.of.setdefault((conversation_id, seq_no), {}).setdefault(key, [])
        users[:] = [one for one in users if one != user_id] + [user_id] * is_on
        counts = {key: ReactionCount(len(users), user_id in users) for key, users in self._all(conversation_id, seq_no)}
        return Beside(counts, reactions_seq=9)

    async def page(
        self, user_id: str, conversation_id: str, seq_no: int, *, cursor: str | None = None
    ) -> tuple[dict[str, list[str]], str | None]:
        return dict(self._all(conversation_id, seq_no)), cursor

    def _all(self, conversation_id: str, seq_no: int) -> list[tuple[str, list[str]]]:
        return [(key, users) for key, users in self.of.get((conversation_id, seq_no), {}).items() if users]


class Consent:
    """Preferences without a store."""

    def __init__(self) -> None:
        self.of: dict[str, Preferences] = {}

    async def preferences(self, user_id: str) -> Preferences:
        return self.of.get(user_id, Preferences())

    async def put_preferences(self, user_id: str, preferences: Preferences) -> None:
        self.of[user_id] = preferences


class People:
    def __init__(self) -> None:
        self.signed_in_ids: list[str] = []
        self.asked: list[tuple[str, str, int]] = []

    def signed_in(self, user_id: str) -> None:
        self.signed_in_ids.append(user_id)

    async def find(self, user_id: str, query: str, limit: int) -> list[Person]:
        self.asked.append((user_id, query, limit))
        return [Person("bob", "Bob", None, True)]


class Search:
    def __init__(self) -> None:
        self.asked: list[tuple[str, Question]] = []

    def deleted(self, conversation_id: str) -> None:
        self.asked.clear()

    async def find(self, user_id: str, question: Question) -> Found:
        self.asked.append((user_id, question))
        entry = Entry("c1", 7, "message", 5, sender_id="bob", content=Content("see you"))
        return Found([Hit(entry, [("see ", False), ("you", True)])], "next", False)


class Directory:
    def __init__(self, accounts: Accounts | None = None) -> None:
        self.accounts = accounts
        self.calls: list[Any] = []
        self.is_new = True

    def _view(self, user_id: str, conversation_id: str = "c1") -> View:
        if not conversation_id.startswith("c"):
            raise NotFound()
        head = Head(conversation_id=conversation_id, kind="group", created_ms=5, name="Crew")
        return View(head, (Member(conversation_id=conversation_id, user_id=user_id, role="owner"),))

    async def create(self, user_id: str, **asked: Any) -> tuple[View, bool]:
        self.calls.append(("create", user_id, asked))
        return self._view(user_id), self.is_new

    async def view(self, user_id: str, conversation_id: str) -> View:
        return self._view(user_id, conversation_id)

    async def rename(self, user_id: str, conversation_id: str, **changes: Any) -> View:
        self.calls.append(("rename", conversation_id, changes))
        return self._view(user_id, conversation_id)

    async def delete(self, user_id: str, conversation_id: str) -> None:
        self.calls.append(("delete", conversation_id))
        self._view(user_id, conversation_id)

    async def accept(self, user_id: str, conversation_id: str) -> View:
        self.calls.append(("accept", conversation_id, user_id))
        return self._view(user_id, conversation_id)

    async def add(
        self, user_id: str, conversation_id: str, user_ids: Sequence[str], *, is_server: bool = False
    ) -> View:
        self.calls.append(("add", conversation_id, list(user_ids)))
        return self._view(user_id, conversation_id)

    async def members(self, user_id: str, conversation_id: str, *, after_id: str, limit: int) -> list[Member]:
        self._view(user_id, conversation_id)
        ids = [f"u{n:03}" for n in range(150) if f"u{n:03}" > after_id]
        return [Member(conversation_id=conversation_id, user_id=id_) for id_ in ids[:limit]]

    async def remove(self, user_id: str, conversation_id: str, other_id: str) -> None:
        self.calls.append(("remove", conversation_id, other_id))

    async def set_role(self, user_id: str, conversation_id: str, other_id: str, role: str) -> View:
        self.calls.append(("role", conversation_id, other_id, role))
        return self._view(user_id, conversation_id)

    async def profiles(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[User]:
        self._view(user_id, conversation_id)
        return [User(user_id=id_, name=id_.title()) for id_ in user_ids]

    async def introduce(self, user: User) -> None:
        assert self.accounts is not None
        await self.accounts.put_user(user)


class Resume:
    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, int], int | None]] = []
        self.others: list[tuple[str, int]] = []  # user, since
        self.error: Exception | None = None

    async def push_others(self, connection: Any, named: dict[str, int], since: int) -> None:
        self.others.append((connection.user_id, since))

    async def catch_up(self, outbound: Any, resume: dict[str, int], since: int | None, permit: Any) -> None:
        self.calls.append((resume, since))
        if self.error is not None:
            raise self.error
        for conversation_id in resume:
            outbound.push_now(ConversationRemoved(conversation_id))


class Recorder:
    """A connection that keeps what it is given."""

    def __init__(self, user_id: str = "alice", device: str | None = None) -> None:
        self.user_id = user_id
        self.connection_id = "r1"
        self.device = device
        self.opened_s = time.monotonic()
        self.events: list[Event] = []
        self.closed: Close | None = None

    def push(self, event: Event) -> None:
        self.events.append(event)

    push_now = push

    def close(self, code: Close, reason: str = "") -> None:
        self.closed = code

    async def drained(self) -> None:
        pass


class Registry:
    def __init__(self) -> None:
        self.leases: list[str] = []
        self.error: Exception | None = None

    async def claim(self, outbound: Connection, beside: Sequence[object] = ()) -> list[object]:
        if self.error is not None:
            raise self.error
        self.leases.append(outbound.user_id)
        return list(beside)

    def release(self, outbound: Connection) -> None:
        if outbound.user_id in self.leases:
            self.leases.remove(outbound.user_id)


class Router:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def close(self, user_id: str, code: Close) -> None:
        for outbound in self._hub.of_user(user_id):
            outbound.close(code)


class LiveStatus:
    """Typing, watching and presence. Bob is online, carol is not; everybody else is unknown."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.asked: list[tuple[str, str, list[str]]] = []

    async def typing(self, user_id: str, conversation_id: str, is_typing: bool, origin: str) -> None:
        self.calls.append((user_id, conversation_id, is_typing, origin))

    async def watch(self, outbound: Connection, conversation_ids: Sequence[str]) -> None:
        self.calls.append(list(conversation_ids))

    def came(self, outbound: Connection) -> None:
        pass

    def went(self, outbound: Connection) -> None:
        pass

    async def presence(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]:
        self.asked.append((user_id, conversation_id, list(user_ids)))
        if conversation_id != "c1":
            raise NotFound("no such conversation")
        known = {"bob": Presence("bob", True, None), "carol": Presence("carol", False, 1794770399146)}
        return [known[id_] for id_ in user_ids or known]


class Notify:
    """Keeps nothing: who is pushed to is not the gateway's concern."""

    def acknowledged(self, user_id: str, device: str | None, acks: Mapping[str, int]) -> None:
        pass

    def left(self, user_id: str, device: str | None) -> None:
        pass


class Kept:
    """Audit and activity: keeps what it is given."""

    def __init__(self) -> None:
        self.rejects: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[str] = Counter()
        self.revocations: list[tuple[str, str]] = []
        self.actions: list[tuple[str, str, str, str]] = []
        self.there: list[str] = []

    def rejected(self, class_name: str, user_id: str, count: int = 1) -> None:
        self.rejects[class_name, user_id] += count

    def sign_in_failed(self, way: str) -> None:
        self.failed[way] += 1

    def revoked(self, user_id: str, by: str) -> None:
        self.revocations.append((user_id, by))

    def acted(self, action: str, by: str, *, user_id: str = "-", detail: str = "") -> None:
        self.actions.append((action, by, user_id, detail))

    def note(self, user_id: str) -> None:
        self.there.append(user_id)


class OverrideRows:
    """The port of overrides in memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], Override] = {}
        self.changes = 0

    async def put(self, override: Override) -> None:
        self.rows[override.scope, override.name, override.class_name] = override
        self.changes += 1

    async def remove(self, scope: str, name: str, class_name: str) -> bool:
        self.changes += 1
        return self.rows.pop((scope, name, class_name), None) is not None

    async def all(self) -> list[Override]:
        return list(self.rows.values())

    async def version(self) -> str:
        return str(self.changes)
