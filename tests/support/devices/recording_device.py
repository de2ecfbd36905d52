"""Devices that follow the protocol's rules and remember everything they were told, over any number of connections.

A follower reconnects to any node that answers, resumes by its contiguous seq, resends what was not acknowledged with
the same ids and in order, reads a gap as history, and says what it has received and read. It is also a witness against
the server: on one connection entries come in the order of their numbers, once, and none is stepped over.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import picows

from tests.support.devices.plain_client import Client, Frame

WINDOW = 4  # sends of one device under way in a conversation
AGAIN_S = 0.05  # before a node is asked again
ACK_S = 0.05  # how often it says what it has
STUCK = 20  # so many times long an entry may be ahead of the others before history is read
PATIENCE_S = 2.5  # an impatient device gives a silent node up after so long without an answer
STOPPED_S = 60.0  # a patient one waits for a node that was stopped
OPEN_S = 5.0  # a connect that is not answered


class Summary(NamedTuple):
    """The receipts of a large conversation: of a message of mine the counts of others, and what all others have."""

    seq: int = 0
    delivered_count: int = 0
    read_count: int = 0
    delivered_all_seq: int = 0
    read_all_seq: int = 0


class Line(Client):
    """One connection of a follower; what comes on it goes to the follower at once."""

    def __init__(self, port: int, token: str, follower: Follower) -> None:
        super().__init__(port, token)
        self.is_welcome = False
        self.pushed = dict(follower.have)  # conversation -> the last seq that came as message.new on this connection
        self.whole: set[str] = set()  # conversations whose resume was complete: nothing may be skipped from here on
        self.ticks: dict[tuple[str, str], tuple[int, int]] = {}  # (conversation, user) -> delivered, read
        self.summaries: dict[str, Summary] = {}
        self._follower = follower

    def take(self, frame: Frame) -> None:
        self.is_welcome = self.is_welcome or frame["type"] == "hello"
        if frame.get("id") is None or "message_id" in frame:
            self._follower.hear(self, frame)
        if frame.get("id") is not None:
            super().take(frame)


class Follower:
    """One device of one user."""

    def __init__(
        self,
        user_id: str,
        device: str,
        conversation_ids: Sequence[str],
        ports: Callable[[], Sequence[int]],
        token: str,
        *,
        is_patient: bool,
        seed: int,
    ) -> None:
        self.user_id, self.device = user_id, device
        self.have = dict.fromkeys(conversation_ids, 0)  # the contiguous seq
        self.log: dict[str, list[Frame]] = {id_: [] for id_ in conversation_ids}
        self.told: dict[str, int] = {}  # message_id -> seq of the acknowledgement
        self.sent: dict[str, list[str]] = {id_: [] for id_ in conversation_ids}  # ids in the order sent
        self.faults: list[str] = []  # what the server must not do
        self.connects = 0
        self._is_patient = is_patient
        self._ahead: dict[str, dict[int, Frame]] = {id_: {} for id_ in conversation_ids}
        self._outbox: dict[str, deque[str]] = {id_: deque() for id_ in conversation_ids}
        self._unsaid: set[str] = set()  # conversations with something to acknowledge
        self._ports = ports
        self._token = token
        self._random = random.Random(seed)
        self._line: Line | None = None

    # --- what a test asks of it ---

    def say(self, conversation_id: str, message_id: str) -> None:
        self.sent[conversation_id].append(message_id)
        self._outbox[conversation_id].append(message_id)

    @property
    def is_done(self) -> bool:
        return not any(self._outbox.values())

    @property
    def state(self) -> str:
        """For whoever wonders why it is not done."""
        line = self._line
        where = f"port {line.port} welcome {line.is_welcome} lost {line.is_lost.is_set()}" if line is not None else ""
        unsent = {c: list(outbox)[:3] for c, outbox in self._outbox.items() if outbox}
        return f"{self.user_id}-{self.device} connects {self.connects} {where} faults {self.faults} unsent {unsent}"

    def tick(self, conversation_id: str, user_id: str) -> tuple[int, int]:
        """How far another member has received and read, as this connection was told."""
        return self._line.ticks.get((conversation_id, user_id), (0, 0)) if self._line is not None else (0, 0)

    def summary(self, conversation_id: str) -> Summary:
        """The same of a large conversation, where no other member is named."""
        return self._line.summaries.get(conversation_id, Summary()) if self._line is not None else Summary()

    def told_of(self, conversation_id: str) -> set[str]:
        """The members whose own receipts came on this connection."""
        return {user_id for c, user_id in self._line.ticks if c == conversation_id} if self._line is not None else set()

    async def read(self, conversation_id: str, seq_no: int) -> None:
        """Until a node has said ok."""
        while not await self._is_read(conversation_id, seq_no):
            await asyncio.sleep(AGAIN_S)

    async def live(self) -> None:
        """Connected, again and again, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for conversation_id in self.have:
                group.create_task(self._send(conversation_id))
            group.create_task(self._acknowledge())
            if not self._is_patient:
                group.create_task(self._watch())
            while True:
                await self._stay_connected()
                await asyncio.sleep(AGAIN_S * (1 + self._random.random()))

    # --- connecting ---

    async def _stay_connected(self) -> None:
        if not (ports := self._ports()):
            return
        self.connects += 1
        line = self._line = Line(self._random.choice(ports), self._token, self)
        if await self._is_welcomed(line):
            self._unsaid.update(self.have)
            await line.is_lost.wait()
        elif line._transport is not None and not line.is_lost.is_set():
            line.cut()
        if line.close_code == 4505:
            self.faults.append("replaced, though it was the only one")

    async def _is_welcomed(self, line: Line) -> bool:
        try:
            async with asyncio.timeout(OPEN_S):
                await line.open()
                hello = await line.ask("connect", token=self._token, device=self.device, resume=self.have)
        except (OSError, TimeoutError, picows.WSError):  # nobody there, or not now
            return False
        return bool(hello["type"] == "hello")

    async def _request(self, type_: str, **fields: Any) -> Frame | None:
        """None: the connection was lost, or there is none now."""
        line = self._line
        if line is None or not line.is_welcome or line.is_lost.is_set():
            return None
        try:
            async with asyncio.timeout(STOPPED_S if self._is_patient else PATIENCE_S):
                return await line.ask(type_, **fields)
        except TimeoutError:
            if self._is_patient:
                self.faults.append(f"{type_} was not answered")
            line.cut()
        except ConnectionError:
            pass
        return None

    async def _watch(self) -> None:
        """A node that does not even answer a ping is given up."""
        while True:
            await self._request("ping")
            await asyncio.sleep(1)

    # --- hearing ---

    def hear(self, line: Line, frame: Frame) -> None:
        if line is not self._line:
            return  # the last words of a connection that was given up
        if frame["type"] == "ok":
            self._take_ok(frame)
        elif frame["type"] == "message.new":
            self._take_pushed(line, frame["conversation_id"], frame["message"])
        elif frame["type"] == "resumed":
            self._take_resumed(line, frame)
        elif frame["type"] == "receipt":
            self._take_tick(line, frame)
        elif frame["type"] == "receipts":
            self._take_summary(line, frame)
        elif frame["type"] == "conversation.removed":
            self.faults.append(f"removed from {frame['conversation_id']}")

    def _take_pushed(self, line: Line, c: str, entry: Frame) -> None:
        seq, last = entry["seq"], line.pushed[c]
        if seq <= last or (c in line.whole and not all(self._has(c, between) for between in range(last + 1, seq))):
            self.faults.append(f"{c[-4:]}: {seq} was pushed after {last}")
        line.pushed[c] = max(seq, last)
        self._take_entry(c, entry)

    def _has(self, c: str, seq: int) -> bool:
        return seq <= self.have[c] or seq in self._ahead[c]

    def _take_resumed(self, line: Line, frame: Frame) -> None:
        c = frame["conversation_id"]
        if frame["reset"]:
            self.faults.append(f"{c[-4:]}: reset")
        if frame["complete"]:
            line.whole.add(c)
            if frame["to_seq"] > self.have[c]:
                self.faults.append(f"{c[-4:]}: complete up to {frame['to_seq']}, and here is only {self.have[c]}")

    def _take_tick(self, line: Line, frame: Frame) -> None:
        key, marks = (frame["conversation_id"], frame["user_id"]), (frame["delivered_seq"], frame["read_seq"])
        old = line.ticks.get(key, (0, 0))
        if marks[0] < old[0] or marks[1] < old[1]:
            self.faults.append(f"a tick went back: {key} {old} -> {marks}")
        line.ticks[key] = marks

    def _take_summary(self, line: Line, frame: Frame) -> None:
        """Of one message the higher counts hold: summaries of two nodes may cross."""
        c, new = frame["conversation_id"], Summary(*(frame[field] for field in Summary._fields))
        old = line.summaries.get(c, Summary())
        if new.seq == old.seq:
            new = Summary(*map(max, new, old))
        if new.seq >= old.seq:
            line.summaries[c] = new

    def _take_entry(self, c: str, entry: Frame) -> None:
        """From wherever it comes; what is next goes into the log."""
        if entry["seq"] > self.have[c]:
            self._ahead[c][entry["seq"]] = entry
        while (following := self._ahead[c].pop(self.have[c] + 1, None)) is not None:
            self.log[c].append(following)
            self.have[c] += 1
            self._unsaid.add(c)

    # --- sending, and saying what it has ---

    async def _send(self, c: str) -> None:
        """A window at a time; what was refused or not answered goes again, in order, before anything else."""
        outbox = self._outbox[c]
        while True:
            batch = list(outbox)[:WINDOW]
            asked = [self._request("message.send", conversation_id=c, message_id=i, text=text_of(i)) for i in batch]
            for answer in await asyncio.gather(*asked):
                assert answer is None or answer["type"] == "ok" or answer["temporary"], answer
            while outbox and outbox[0] in self.told:
                outbox.popleft()
            if not outbox or outbox[0] in batch:
                await asyncio.sleep(AGAIN_S)

    def _take_ok(self, frame: Frame) -> None:
        """A message of its own has its number."""
        c, id_, seq = frame["conversation_id"], frame["message_id"], frame["seq"]
        if self.told.setdefault(id_, seq) != seq:
            self.faults.append(f"{id_} is {self.told[id_]} and {seq}")
        entry = {"seq": seq, "kind": "message", "message_id": id_, "sender_id": self.user_id, "text": text_of(id_)}
        self._take_entry(c, entry)

    async def _is_read(self, conversation_id: str, seq_no: int) -> bool:
        answer = await self._request("message.read", conversation_id=conversation_id, up_to_seq=seq_no)
        assert answer is None or answer["type"] == "ok" or answer["temporary"], answer
        return answer is not None and answer["type"] == "ok"

    async def _acknowledge(self) -> None:
        """And the gap rule: what is ahead for longer than a moment, or was not complete, means to read history."""
        stuck = dict.fromkeys(self.have, 0)
        while True:
            await asyncio.sleep(ACK_S)
            line = self._line
            if line is None or not line.is_welcome or line.is_lost.is_set():
                continue
            if self._unsaid:
                line.send({"type": "message.delivered", "acks": {c: self.have[c] for c in self._unsaid}})
                self._unsaid.clear()
            for c, ahead in self._ahead.items():
                stuck[c] = stuck[c] + 1 if ahead or c not in line.whole else 0
                if stuck[c] > STUCK:
                    stuck[c] = 0
                    await self._read_gap(c)

    async def _read_gap(self, c: str) -> None:
        page = await self._request("history", conversation_id=c, after_seq=self.have[c], limit=100)
        if page is not None and page["type"] == "ok":
            for entry in reversed(page["messages"]):
                self._take_entry(c, entry)


def text_of(message_id: str) -> str:
    return f"what {message_id} says"
