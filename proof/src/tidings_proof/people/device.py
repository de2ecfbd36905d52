"""One device of one user: it follows the protocol's rules over any number of connections, and records all it sees.

It reconnects to any node that answers, resumes by its contiguous seq, resends what was not acknowledged with the same
id and in order, reads a gap as history, says what it has. The workload may ask it to be rude (`rude.py`): the
device then records what it breaks itself as `loose`, so that the server is not blamed for it.
"""

from __future__ import annotations

import asyncio
import itertools
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import picows

from tidings.clock import Clock, Dice
from tidings_proof.judge.history import History, Seen, seen
from tidings_proof.people.wire import Frame, Line

WINDOW = 6  # sends of one device under way in one conversation
AGAIN_S = 0.05  # before something is asked again
ACK_S = 0.1  # how often it says what it has
STUCK = 15  # so many looks an entry may be ahead of the others before history is read
PATIENCE_S = 4.0  # a node that does not answer for so long is given up
OPEN_S = 6.0  # a connect that is not answered
PING_S = 1.5
AT_HOME = 0.6  # how often a device goes to its own node first
_SINCE_MS = 2 * 3_600_000  # it asks for everything of the run on every connect, however far a node's clock jumps
_lines = itertools.count(1)


class Followed:
    """How far the device is in one conversation."""

    __slots__ = ("ahead", "have", "is_here", "is_moved", "is_whole", "stuck", "top")

    def __init__(self, is_here: bool) -> None:
        self.have = 0  # the contiguous seq
        self.top = 0  # the highest seq that is not a void: a void at the end is news to nobody
        self.ahead: set[int] = set()
        self.is_here = is_here  # a member, as far as it was told
        self.is_moved = False  # joined again: what came meanwhile may be hidden
        self.is_whole = False  # the resume of this connection was complete
        self.stuck = 0

    def take(self, seq: int, *, is_void: bool = False) -> bool:
        """True: it has more without a gap than before."""
        self.top = self.top if is_void else max(self.top, seq)
        if seq > self.have:
            self.ahead.add(seq)
        before = self.have
        while self.have + 1 in self.ahead:
            self.have += 1
            self.ahead.discard(self.have)
        return self.have > before

    def jump(self, seq: int) -> None:
        self.have = max(self.have, seq)
        self.ahead = {one for one in self.ahead if one > self.have}
        self.take(0)  # what follows it may be here already


class Device:
    """`live` keeps it connected and sending until it is cancelled."""

    def __init__(
        self,
        user_id: str,
        name: str,
        conversations: Iterable[tuple[str, bool]],
        ports: Callable[[], Sequence[int]],
        token: str,
        history: History,
        dice: Dice,
    ) -> None:
        """`conversations`: all it may ever be in, and whether it is now."""
        self.user_id, self.name = user_id, name
        self.history = history
        self.dice = dice
        self.followed = {id_: Followed(is_here) for id_, is_here in conversations}
        self.acked: list[tuple[str, str, int, str]] = []  # conversation, message_id, seq, text: for edits and resends
        self.reacted: list[tuple[str, int, str]] = []  # conversation, seq, key: to take back
        self.loose: set[str] = set()  # ids whose order it broke itself
        self.is_asleep = False  # not to connect
        self.patience_s = PATIENCE_S
        self.line: Line | None = None
        self._ports = ports
        self._token = token
        self._outbox: dict[str, deque[tuple[str, str]]] = {id_: deque() for id_ in self.followed}
        self._more: dict[str, dict[str, Any]] = {}  # by message_id: what a message carries beside its text
        self._unsaid: set[str] = set()
        self._count = 0
        self._born_ms = Clock().now_ms() - _SINCE_MS

    # --- what the workload asks of it ---------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        return not any(self._outbox.values())

    @property
    def is_live(self) -> bool:
        return self.line is not None and self.line.is_live

    def compose(self, conversation_id: str, text: str | None = None, *, tail: str = "", **more: Any) -> str:
        """A new message to be sent, in its turn; its id. `more`: what it carries beside its text."""
        self._count += 1
        message_id = f"{self.user_id}-{self.name}-{self._count}{tail}"
        if more:
            self._more[message_id] = more
        self._outbox[conversation_id].append((message_id, text or f"what {message_id} says"))
        return message_id

    def waiting(self, conversation_id: str) -> int:
        return len(self._outbox[conversation_id])

    def give_up(self) -> None:
        """Send nothing again: the fate of a message without an acknowledgement stays unknown."""
        for outbox in self._outbox.values():
            outbox.clear()

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            for conversation_id in self.followed:
                group.create_task(self._send_on(conversation_id))
            group.create_task(self._acknowledge())
            group.create_task(self._close_gaps())
            group.create_task(self._watch())
            while True:
                if not self.is_asleep:
                    await self._stay_connected()
                await asyncio.sleep(AGAIN_S * (1 + 3 * self.dice.random()))

    # --- connecting ---------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        line = self.line = Line(next(_lines), self._port(), self._hear)
        for one in self.followed.values():
            one.is_whole = False
        try:
            if await self._is_welcomed(line):
                self._unsaid.update(id_ for id_, one in self.followed.items() if one.is_here)
                await line.lost.wait()
        finally:
            line.cut()
        self._record("event", "closed", line=line.number, seq=line.close_code)

    def _port(self) -> int:
        """Mostly the same node, so that the devices of a user, and those of neighbours, are on different ones."""
        ports = self._ports()
        home = ports[zlib.crc32(f"{self.user_id} {self.name}".encode()) % len(ports)]
        return home if self.dice.random() < AT_HOME else self.dice.choice(ports)

    async def _is_welcomed(self, line: Line) -> bool:
        resume = {id_: one.have for id_, one in self.followed.items() if one.is_here}
        try:
            async with asyncio.timeout(max(OPEN_S, self.patience_s)):
                await line.open()
                self._record("event", "connected", line=line.number, seq=line.port, value=resume)
                asked = {"token": self._token, "device": self.name, "resume": resume, "since": self._born_ms}
                hello = await line.ask("connect", **asked)
        except (OSError, TimeoutError, picows.WSError):  # nobody there, or not now
            return False
        return bool(hello["type"] == "hello")

    async def request(self, type_: str, line: Line | None = None, **fields: Any) -> Frame | None:
        """None: nobody knows. A node that does not answer in time is given up."""
        line = line or self.line
        if line is None or not line.is_live:
            return None
        try:
            async with asyncio.timeout(self.patience_s):
                return await line.ask(type_, **fields)
        except TimeoutError:
            line.cut()
        except ConnectionError:
            pass
        return None

    async def _watch(self) -> None:
        """A node that does not even answer a ping is given up."""
        while True:
            await self.request("ping")
            await asyncio.sleep(PING_S)

    # --- hearing ------------------------------------------------------------------------------------

    def _hear(self, line: Line, frame: Frame) -> None:
        if line is not self.line:
            return  # the last words of a connection that was given up
        match frame["type"]:
            case "ok" if "message_id" in frame:  # noted here and now: what is pushed next counts on it
                id_, seq = frame["conversation_id"], frame["seq"]
                self._record("event", "mine", line=line.number, conversation_id=id_, seq=seq)
                self.take(id_, seq)
            case "message.new":
                self._hear_entry(line, frame)
            case "resumed":
                self._hear_resumed(line, frame)
            case "receipt":
                marks = [frame["user_id"], frame["delivered_seq"], frame["read_seq"]]
                self._record(
                    "event", "receipt", line=line.number, conversation_id=frame["conversation_id"], value=marks
                )
            case "conversation.added" | "conversation.removed":
                self._hear_moved(line, frame["conversation_id"], frame["type"].endswith("added"))
            case "conversation.updated" if not self._is_here(frame["conversation_id"]):
                self._hear_moved(line, frame["conversation_id"], True)

    def _hear_entry(self, line: Line, frame: Frame) -> None:
        id_ = frame["conversation_id"]
        entry = seen(frame["message"])
        if not self._is_here(id_):
            self._hear_moved(line, id_, True)  # the word of it went to a connection that is gone
        self._record("event", "recv", line=line.number, conversation_id=id_, seq=entry.seq, entries=(entry,))
        self.take(id_, entry.seq, is_void=entry.kind == "void")

    def _hear_resumed(self, line: Line, frame: Frame) -> None:
        id_, one = frame["conversation_id"], self.followed[frame["conversation_id"]]
        facts = {name: frame[name] for name in ("from_seq", "to_seq", "complete", "reset")}
        self._record("event", "resumed", line=line.number, conversation_id=id_, value=facts)
        one.jump(frame["from_seq"] - 1)
        one.is_whole = frame["complete"]
        one.is_moved = one.is_moved and not one.is_whole

    def _hear_moved(self, line: Line, conversation_id: str, is_here: bool) -> None:
        self._record("event", "added" if is_here else "removed", line=line.number, conversation_id=conversation_id)
        one = self.followed.get(conversation_id)
        if one is not None:
            one.is_here, one.is_moved, one.is_whole = is_here, is_here, False

    def _is_here(self, conversation_id: str) -> bool:
        one = self.followed.get(conversation_id)
        return one is None or one.is_here

    def take(self, conversation_id: str, seq: int, *, is_void: bool = False) -> None:
        one = self.followed.get(conversation_id)
        if one is not None and one.take(seq, is_void=is_void):
            self._unsaid.add(conversation_id)

    # --- sending ------------------------------------------------------------------------------------

    async def _send_on(self, conversation_id: str) -> None:
        """A window at a time; what was refused or not answered goes again, in order, before anything else."""
        outbox = self._outbox[conversation_id]
        while True:
            if not outbox or not self.is_live:
                await asyncio.sleep(AGAIN_S)
                continue
            batch = list(itertools.islice(outbox, WINDOW))
            ends = await asyncio.gather(*(self.send(conversation_id, *one) for one in batch))
            done = {id_ for (id_, _), end in zip(batch, ends, strict=True) if end != "info"}
            while outbox and outbox[0][0] in done:
                done.discard(outbox.popleft()[0])
            if done:  # something later ended before something earlier: it is taken out where it stands
                kept = [one for one in outbox if one[0] not in done]
                outbox.clear()
                outbox.extend(kept)
            if "info" in ends:
                await asyncio.sleep(AGAIN_S)

    async def send(self, conversation_id: str, message_id: str, text: str, line: Line | None = None) -> str:
        """One attempt: ok, fail or info."""
        over = line or self.line
        facts: dict[str, Any] = {"conversation_id": conversation_id, "message_id": message_id}
        facts |= {"line": over.number if over else 0}
        loose = True if message_id in self.loose else None
        op = self._invoke("send", text=text, value=loose, **facts)
        what = {"conversation_id": conversation_id, "message_id": message_id, "text": text}
        answer = await self.request("message.send", over, **what, **self._more.get(message_id, {}))
        if answer is not None and answer["type"] == "ok":
            self._record("ok", "send", op=op, seq=answer["seq"], value=answer["duplicate"], **facts)
            self.acked.append((conversation_id, message_id, answer["seq"], text))
            return "ok"
        if answer is not None and answer["code"] == "not_found":
            self.followed[conversation_id].is_here = False  # the word that it was removed did not reach it
        return self._failed("send", op, answer, **facts)

    def _failed(self, f: str, op: int, answer: Frame | None, **facts: Any) -> str:
        """Record a failure. A request that was refused for the moment may have happened all the same: nobody knows."""
        is_final = answer is not None and not answer["temporary"]
        code = answer["code"] if answer is not None else "lost"
        self._record("fail" if is_final else "info", f, op=op, error=code, **facts)
        return "fail" if is_final else "info"

    # --- other requests -----------------------------------------------------------------------------

    async def ask(self, f: str, type_: str, conversation_id: str = "", **fields: Any) -> Frame | None:
        """A request whose answer has no entries: read, unread, inbox."""
        line = self.line.number if self.line else 0
        named: dict[str, Any] = {"conversation_id": conversation_id} if conversation_id else {}
        op = self._invoke(f, line=line, conversation_id=conversation_id, value=fields)
        answer = await self.request(type_, **named, **fields)
        if answer is None or answer["type"] != "ok":
            self._failed(f, op, answer, line=line, conversation_id=conversation_id)
            return None
        self._record("ok", f, op=op, line=line, conversation_id=conversation_id, value=_shortened(f, answer))
        return answer

    async def page(self, conversation_id: str, **place: Any) -> Frame | None:
        """A page of history, which fills gaps too."""
        line = self.line.number if self.line else 0
        op = self._invoke("history", line=line, conversation_id=conversation_id, value=place)
        answer = await self.request("history", conversation_id=conversation_id, **place)
        if answer is None or answer["type"] != "ok":
            self._failed("history", op, answer, line=line, conversation_id=conversation_id)
            if answer is not None and answer["code"] == "not_found":
                self.followed[conversation_id].is_here = False
            return None
        entries = tuple(seen(message) for message in answer["messages"])
        facts = {"place": place, "head": answer["head"], "next_after_seq": answer["next_after_seq"]}
        self._record("ok", "history", op=op, line=line, conversation_id=conversation_id, entries=entries, value=facts)
        self._take_page(conversation_id, entries, place)
        return answer

    def _take_page(self, conversation_id: str, entries: Sequence[Seen], place: dict[str, int]) -> None:
        one = self.followed.get(conversation_id)
        if one is None or not entries:
            return
        oldest = entries[-1].seq
        if one.is_moved and place.get("after_seq") == one.have and oldest > one.have + 1:
            one.jump(oldest - 1)
        for entry in reversed(entries):
            self.take(conversation_id, entry.seq, is_void=entry.kind == "void")

    # --- saying what it has -------------------------------------------------------------------------

    async def _acknowledge(self) -> None:
        while True:
            await asyncio.sleep(ACK_S)
            if self.is_live:
                await self._say_delivered()

    async def _close_gaps(self) -> None:
        """The gap rule: what is ahead for longer than a moment, or was not complete, means to read history."""
        while True:
            await asyncio.sleep(ACK_S)
            if not self.is_live:
                continue
            for conversation_id, one in self.followed.items():
                one.stuck = one.stuck + 1 if one.is_here and (one.ahead or not one.is_whole) else 0
                if one.stuck > STUCK:
                    one.stuck = 0
                    await self._read_gap(conversation_id, one)

    async def _say_delivered(self) -> None:
        """A word that was refused, or may be lost, is said again."""
        acks = {id_: self.followed[id_].have for id_ in self._unsaid if self.followed[id_].have}
        self._unsaid.clear()
        if acks and self.line is not None:
            line = self.line.number
            op = self._invoke("ack", line=line, value=acks)
            answer = await self.request("message.delivered", acks=acks)
            if answer is not None and answer["type"] == "ok":
                self._record("ok", "ack", op=op, line=line, value=acks)
            else:
                self._failed("ack", op, answer, line=line)
                self._unsaid |= acks.keys()

    async def _read_gap(self, conversation_id: str, one: Followed) -> None:
        page = await self.page(conversation_id, after_seq=one.have, limit=100)
        if page is not None and page["next_after_seq"] is None:
            if one.is_moved:
                one.jump(page["head"])  # whatever it did not get up to here is not for it to see
            one.is_whole, one.is_moved = not one.ahead, False

    def _invoke(self, f: str, **facts: Any) -> int:
        return self.history.invoke(f, user_id=self.user_id, device=self.name, **facts)

    def _record(self, type_: Any, f: str, **facts: Any) -> None:
        self.history.note(type_, f, user_id=self.user_id, device=self.name, **facts)


def _shortened(f: str, answer: Frame) -> Any:
    """Return the part of an answer that the judge wants to know."""
    if f == "inbox":
        wanted = ("conversation_id", "last_seq", "unread_count", "last_message_ts", "read_seq")
        rows = [[row[name] for name in wanted] for row in answer["conversations"]]
        return {"rows": rows, "stale": answer["stale"], "total": answer["total_unread"]}
    return {name: answer.get(name) for name in ("read_seq", "unread_count", "total_unread")}
