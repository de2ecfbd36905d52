"""A device as an app has it: it comes back when told to, resumes where it was, and says again what nobody answered.

It goes by the public protocol alone. `check` holds what it has against the log: whatever became of the nodes meanwhile,
it has every entry, in order, with the text that was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

from tests.support.devices.plain_client import Client, Frame
from tests.support.nodes.fleet import Fleet

BACK_S = 60.0  # a device that is not back by then has been forgotten
PAUSE_S = 0.05  # before a temporary refusal is answered with another try


class Traveller:
    """One device in one conversation. `begin` before, `end` after."""

    def __init__(self, fleet: Fleet, user_id: str, device: str, conversation_id: str) -> None:
        self.user_id = user_id
        self.sent: list[str] = []  # message ids in the order sent
        self.told: dict[str, int] = {}  # message id -> seq of the acknowledgement
        self.moves = 0  # how often it had to come back
        self.refused = 0  # how often haproxy had no node for it
        self._fleet = fleet
        self._device = device
        self._conversation_id = conversation_id
        self._entries: dict[int, Frame] = {}  # what it was given
        self._own: set[int] = set()
        self._whole_seq = 0  # it has everything up to here
        self._wrong: list[list[int]] = []  # what came out of order, or differed when it came again
        self._client: Client | None = None
        self._is_back = asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._living = asyncio.create_task(self._live(), name=f"{self.user_id}-{self._device}")
        await asyncio.wait_for(self._is_back.wait(), BACK_S)

    async def end(self) -> None:
        assert self._living is not None
        self._living.cancel()
        await asyncio.gather(self._living, return_exceptions=True)
        if self._client is not None and not self._client.is_lost.is_set():
            await self._client.close()

    async def say(self, message_id: str) -> None:
        """Until it is acknowledged, with the same id on whatever connection there is."""
        self.sent.append(message_id)
        while message_id not in self.told:
            await asyncio.wait_for(self._is_back.wait(), BACK_S)
            answer = await self._try(message_id)
            if answer is None or answer["type"] == "error":
                assert answer is None or answer["temporary"], answer
                await asyncio.sleep(PAUSE_S)
            else:
                self.told[message_id] = answer["seq"]
                self._own.add(answer["seq"])

    def has_all(self, head: int) -> bool:
        return self._reached() == head

    def check(self, log: Sequence[Frame]) -> None:
        """Nothing is missing, nothing came out of order, and what it was given is what the log says."""
        assert (self._reached(), self._wrong) == (len(log), [])
        assert {seq: entry["text"] for seq, entry in self._entries.items()} == {
            entry["seq"]: entry["text"] for entry in log if entry["seq"] in self._entries
        }
        assert sorted(self.told, key=self.told.__getitem__) == self.sent

    # --- living ---

    async def _live(self) -> None:
        while True:
            client = Listening(self._fleet.port, self._fleet.token(self.user_id), self._heard)
            if await self._is_connected(client):
                self._client = client
                self._is_back.set()
                await self._catch_up(client)
                await client.is_lost.wait()
                self._is_back.clear()
                self.moves += 1
            await asyncio.sleep(client.back_in_s())

    async def _is_connected(self, client: Client) -> bool:
        try:
            await client.open()
        except Exception:  # whatever picows raises for an upgrade that was refused
            self.refused += 1
            return False
        try:
            resume = {self._conversation_id: self._reached()}
            hello = await client.request("connect", token=client.token, device=self._device, resume=resume)
        except (ConnectionError, TimeoutError):
            return False
        assert hello["type"] == "hello", hello
        return True

    async def _catch_up(self, client: Client) -> None:
        """What is too much for a resume is read as history, while live entries come all the same."""
        resumed: list[Frame] = []
        while not resumed and not client.is_lost.is_set():
            await asyncio.sleep(PAUSE_S)
            resumed = [frame for frame in client.events if frame["type"] == "resumed"]
        after = resumed[0]["to_seq"] if resumed and not resumed[0]["complete"] else None
        while after is not None and not client.is_lost.is_set():
            after = await self._read_on(client, after)

    async def _read_on(self, client: Client, after: int) -> int | None:
        """One page; the seq after which the next one begins. On a lost connection nothing: the next one goes on."""
        try:
            page = await client.request("history", conversation_id=self._conversation_id, after_seq=after, limit=100)
        except ConnectionError:
            return None
        for entry in page["messages"]:
            self._note(entry)
        next_after: int | None = page["next_after_seq"]
        return next_after

    async def _try(self, message_id: str) -> Frame | None:
        client = self._client
        if client is None or client.is_lost.is_set():
            return None
        try:
            return await client.say(self._conversation_id, message_id, text_of(message_id))
        except ConnectionError:
            return None

    def _heard(self, entries: Sequence[Frame]) -> None:
        """The last entries that one connection was given: each comes after the one before it."""
        if not all(a["seq"] < b["seq"] for a, b in pairwise(entries)):
            self._wrong.append([entry["seq"] for entry in entries])
        self._note(entries[-1])

    def _note(self, entry: Frame) -> None:
        if self._entries.setdefault(entry["seq"], entry)["message_id"] != entry["message_id"]:
            self._wrong.append([entry["seq"]])

    def _reached(self) -> int:
        """The last seq up to which it has everything."""
        while self._whole_seq + 1 in self._entries or self._whole_seq + 1 in self._own:
            self._whole_seq += 1
        return self._whole_seq


class Listening(Client):
    """Tells its traveller of every entry as it comes."""

    def __init__(self, port: int, token: str, on_entry: Callable[[Sequence[Frame]], None]) -> None:
        super().__init__(port, token)
        self._on_entry = on_entry
        self._last: list[Frame] = []

    def take(self, frame: Frame) -> None:
        super().take(frame)
        if frame["type"] == "message.new":
            self._last = [*self._last[-1:], frame["message"]]
            self._on_entry(self._last)

    def back_in_s(self) -> float:
        """When it was asked to come back; at once, nearly, when nobody said."""
        told = [frame["reconnect_in_ms"] for frame in self.events if frame["type"] == "draining"]
        return told[-1] / 1000 if told else PAUSE_S


def text_of(message_id: str) -> str:
    return f"what {message_id} says"
