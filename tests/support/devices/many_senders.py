"""Many devices that send into one conversation at once, resend a good part of it, and remember what they were told.

The crowd is the witness of the promises: what was acknowledged, under which number, in which order each device sent.
`check_log` holds the log against it. A device answers an error as the protocol asks: it sends again, in order.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from tests.support.devices.plain_client import Client, Frame

WINDOW = 8  # sends of one device under way
RESENT = 0.2  # of all messages
AGAIN_S = 0.05  # before an unavailable node is asked again
NEW = b'{"type":"message.new"'


class Device(Client):
    """One socket. Of message.new it keeps the number only: a crowd hears a lot."""

    def __init__(self, port: int, token: str, name: str) -> None:
        super().__init__(port, token)
        self.name = name
        self.heard: list[int] = []  # seqs that were pushed to it
        self.answered: set[int] = set()  # seqs of its own acknowledgements

    def hear(self, payload: bytes) -> None:
        if payload.startswith(NEW):
            at = payload.index(b'"seq":') + 6
            self.heard.append(int(payload[at : payload.index(b",", at)]))
        else:
            super().hear(payload)

    def take(self, frame: Frame) -> None:
        if frame["type"] == "ok" and "seq" in frame:
            self.answered.add(frame["seq"])
        super().take(frame)


Said = tuple[Device, asyncio.Future[Frame]]  # a send under way


class Crowd:
    """`users` x `devices` sockets. `told` and `stored` are what the answers said."""

    def __init__(self, users: int, devices: int, *, seed: int = 1) -> None:
        self.user_ids = [f"u{n}" for n in range(users)]
        self.names = [f"{user_id}-d{n}" for user_id in self.user_ids for n in range(devices)]
        self.sent: dict[str, dict[str, None]] = {name: {} for name in self.names}  # device -> ids in the order sent
        self.told: dict[str, int] = {}  # message_id -> seq of the acknowledgement
        self.stored: dict[str, int] = {}  # message_id -> how often an answer said that it was stored now
        self.resends = 0
        self.connected: dict[str, Device] = {}
        self._random = random.Random(seed)

    async def connect(self, port_of: Callable[[str], int], token_of: Callable[[str], str]) -> None:
        """`port_of` a device's name: a crowd may be spread over nodes."""
        self.connected = {name: Device(port_of(name), token_of(user_of(name)), name) for name in self.names}
        await asyncio.gather(*(device.connect() for device in self.connected.values()))

    async def leave(self) -> None:
        await asyncio.gather(*(device.close() for device in self.connected.values() if not device.is_lost.is_set()))

    @property
    def acknowledged(self) -> int:
        return len(self.told)

    def unacknowledged(self, name: str) -> list[str]:
        return [id_ for id_ in self.sent[name] if id_ not in self.told]

    async def send(self, conversation_id: str, count: int) -> None:
        """Each device resends what was not acknowledged, then sends its share of `count` more.

        A device whose socket is lost stops by itself.
        """
        share = count // len(self.names)
        async with asyncio.TaskGroup() as group:
            for name in self.names:
                begun = len(self.sent[name])
                ids = [f"{name}-{n}" for n in range(begun, begun + share)]
                group.create_task(self._run(self.connected[name], conversation_id, ids))

    async def resend(self, conversation_id: str, message_ids: Sequence[str]) -> None:
        """Once more, each on the device that sent it first; the answers must repeat what was said."""
        self.resends += len(message_ids)
        asked = [(id_, self._say(self.connected[device_of(id_)], conversation_id, id_)) for id_ in message_ids]
        for id_, (_, answer) in asked:
            frame = await asyncio.wait_for(answer, 60)
            assert frame["type"] == "ok", frame
            self.note(id_, frame)

    def some_acknowledged(self, share: float) -> list[str]:
        return self._random.sample(sorted(self.told), int(len(self.told) * share))

    # --- one device ---

    async def _run(self, device: Device, c: str, fresh: list[str]) -> None:
        waiting = deque([*self.unacknowledged(device.name), *fresh])
        while waiting and not device.is_lost.is_set():
            if await self._advance(device, c, waiting):
                await asyncio.sleep(AGAIN_S)

    async def _advance(self, device: Device, c: str, waiting: deque[str]) -> list[str]:
        """A window of sends. What is refused as temporary stays in front, with everything after it, and is answered."""
        batch = [waiting.popleft() for _ in range(min(WINDOW, len(waiting)))]
        self.sent[device.name].update(dict.fromkeys(batch))
        refused: list[str] = []
        for id_, said in [(id_, self._say_perhaps_twice(device, c, id_)) for id_ in batch[:-1]]:
            refused += await self._take(c, id_, said)
        if not refused and not device.is_lost.is_set():
            # Everything before it is stored: now it may race itself on two sockets without overtaking anything.
            last = batch[-1]
            refused += await self._take(c, last, self._say_on_two(device, c, last))
        else:
            refused.append(batch[-1])
        waiting.extendleft(reversed(refused))
        return refused

    def _say_perhaps_twice(self, device: Device, c: str, id_: str) -> list[Said]:
        times = 2 if self._random.random() < RESENT / 2 else 1
        self.resends += times - 1
        return [self._say(device, c, id_) for _ in range(times)]

    def _say_on_two(self, device: Device, c: str, id_: str) -> list[Said]:
        """The same message on two sockets of the user at once."""
        user_id = user_of(device.name)
        others = [one for name, one in self.connected.items() if user_of(name) == user_id and one is not device]
        alive = [one for one in others if not one.is_lost.is_set()][:1]
        self.resends += len(alive)
        return [self._say(one, c, id_) for one in (device, *alive)]

    def _say(self, device: Device, c: str, id_: str) -> Said:
        return device, device.ask("message.send", conversation_id=c, message_id=id_, text=text_of(id_))

    async def _take(self, c: str, id_: str, said: list[Said]) -> list[str]:
        """The id itself when it is to be sent again. A copy that was refused and will not be is given up."""
        frames = await asyncio.gather(*(answer for _, answer in said), return_exceptions=True)
        heard = [(device, frame) for (device, _), frame in zip(said, frames, strict=True) if isinstance(frame, dict)]
        for _, frame in heard:
            self.note(id_, frame)
        for device, frame in heard:
            is_given_up = id_ in self.told or device.name != device_of(id_)
            if frame["type"] == "error" and is_given_up and not device.is_lost.is_set():
                device.send({"type": "message.abandon", "conversation_id": c, "message_id": id_})
        return [] if id_ in self.told else [id_]

    def note(self, id_: str, frame: Frame) -> None:
        if frame["type"] == "error":
            assert frame["temporary"], frame
            return
        assert frame["message_id"] == id_, frame
        assert self.told.setdefault(id_, frame["seq"]) == frame["seq"], (id_, self.told[id_], frame)
        self.stored[id_] = self.stored.get(id_, 0) + (not frame["duplicate"])


def user_of(device_name: str) -> str:
    return device_name.split("-")[0]


def device_of(message_id: str) -> str:
    return message_id.rpartition("-")[0]


def text_of(message_id: str) -> str:
    return f"what {message_id} says"


async def read_log(client: Client, conversation_id: str, within_s: float = 60) -> list[Frame]:
    """All entries up to the head, oldest first. A page ends below a gap: it is asked for again until closed."""
    entries: list[Frame] = []
    async with asyncio.timeout(within_s):
        while True:
            last = entries[-1]["seq"] if entries else 0
            page = await client.request("history", conversation_id=conversation_id, after_seq=last, limit=100)
            assert page["type"] == "ok", page
            assert [entry["seq"] for entry in page["messages"][::-1]] == span(last, len(page["messages"]))
            entries += reversed(page["messages"])
            if page["next_after_seq"] is None:
                assert page["head"] == len(entries)
                return entries
            if not page["messages"]:
                await asyncio.sleep(AGAIN_S)


def span(after: int, size: int) -> list[int]:
    return list(range(after + 1, after + 1 + size))


def check_log(entries: Sequence[Frame], crowd: Crowd) -> None:
    """Nothing acknowledged is missing or moved, nothing is there twice, texts are what was sent, order was kept."""
    messages = [entry for entry in entries if entry["kind"] == "message"]
    assert {entry["kind"] for entry in entries} <= {"message", "void"}
    seq_of = {entry["message_id"]: entry["seq"] for entry in messages}
    assert len(seq_of) == len(messages), "an id is stored twice"
    assert [id_ for id_ in crowd.told if id_ not in seq_of] == [], "acknowledged and not in the log"
    assert {id_: seq_of[id_] for id_ in crowd.told} == crowd.told
    assert [entry for entry in messages if entry["text"] != text_of(entry["message_id"])] == []
    assert [entry for entry in messages if entry["sender_id"] != user_of(entry["message_id"])] == []
    for ids in crowd.sent.values():
        seqs = [seq_of[id_] for id_ in ids if id_ in seq_of]
        assert all(a < b for a, b in pairwise(seqs)), "a device's order was not kept"
    times = [entry["sent_at"] for entry in entries]
    assert all(a <= b for a, b in pairwise(times)), "sent_at goes back"


async def check_unread(
    client: Client, conversation_id: str, user_id: str, entries: Sequence[Frame], *, cursor: int = 0
) -> None:
    """What a member sees who has read up to the cursor: every later message of the others, once."""
    later = [entry for entry in entries if entry["seq"] > cursor and entry["kind"] == "message"]
    expected = sum(entry["sender_id"] != user_id for entry in later)
    inbox = await client.request("inbox")
    assert (inbox["type"], inbox.get("stale")) == ("ok", False), inbox
    rows = {row["conversation_id"]: row["unread_count"] for row in inbox["conversations"]}
    assert (rows, inbox["total_unread"]) == ({conversation_id: expected}, expected)
