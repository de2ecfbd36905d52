"""A journey through the SDK: people with several devices talk while their networks fail, and afterwards everything is
compared with the log. What each device was told must be exactly what was sent: once, in order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from tidings_client import Client, Message
from tidings_client.reading.streams import Stream
from tidings_client.values import MessageNew, Receipt
from tidings_proof.world.proxy import Proxy, open_proxy

PEOPLE = ("alice", "bob", "carol")
DEVICES = ("phone", "laptop")
SETTLE_S = 120.0


@dataclass
class Device:
    """One client behind a network of its own, and everything it was told."""

    user_id: str
    name: str
    proxy: Proxy
    client: Client
    told: dict[str, list[Message]] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    cut_count: int = 0
    sent: dict[str, list[str]] = field(default_factory=dict)  # conversation -> texts in the order they were begun

    async def listen(self, events: Stream[MessageNew | Receipt]) -> None:
        async for event in events:
            if isinstance(event, Receipt):
                self.receipts.append(event)
            else:
                self.told.setdefault(event.conversation_id, []).append(event.message)

    def is_told(self, name: str, count: int) -> bool:
        return len(self.told.get(name, ())) >= count

    def is_read_by(self, name: str, user_id: str, seq: int) -> bool:
        """Whether a tick of this user covers it."""
        marks = [r.read_seq for r in self.receipts if (r.conversation_id, r.user_id) == (name, user_id)]
        return max(marks, default=0) >= seq

    async def suffer(self, chance: random.Random) -> None:
        try:
            while True:
                await asyncio.sleep(chance.random() * 0.5)
                await self.proxy.cut()
                self.cut_count += 1
                await asyncio.sleep(chance.random() * 0.2)
                self.proxy.mend()
        finally:
            self.proxy.mend()

    async def talk(self, conversations: list[str], count: int, chance: random.Random) -> None:
        """In bursts: several sends of one device are under way at once."""
        sends: list[asyncio.Task[object]] = []
        for number in range(count):
            conversation_id = chance.choice(conversations)
            text = f"{self.user_id}/{self.name} {number}"
            self.sent.setdefault(conversation_id, []).append(text)
            sends.append(asyncio.create_task(self.client.send(conversation_id, text)))
            await asyncio.sleep(0 if chance.random() < 0.7 else chance.random() * 0.2)
        await asyncio.gather(*sends)


class Journey:
    def __init__(self, devices: list[Device], conversations: dict[str, tuple[str, ...]]) -> None:
        self.devices = devices
        self.conversations = conversations  # id -> members

    def of(self, user_id: str) -> list[str]:
        return [name for name, members in self.conversations.items() if user_id in members]

    async def talk(self, count: int, chance: random.Random) -> None:
        await asyncio.gather(*(device.talk(self.of(device.user_id), count, chance) for device in self.devices))

    def is_under_way(self, count: int) -> bool:
        """Whether this many entries were told, over all devices."""
        return sum(len(told) for device in self.devices for told in device.told.values()) >= count

    async def storm(self, chance: random.Random) -> None:
        """Until cancelled: every network is cut again and again, for a moment or a little longer."""
        async with asyncio.TaskGroup() as group:
            for device in self.devices:
                group.create_task(device.suffer(chance))

    async def check(self) -> None:
        """Everything that must hold once the networks are whole again."""
        logs = {name: await self.log(name) for name in self.conversations}
        self._check_logs(logs)
        for device in self.devices:
            for name in self.of(device.user_id):
                await eventually(partial(device.is_told, name, len(logs[name])), f"{device.name} {name}")
                assert places(device.told[name]) == places(logs[name]), (device.user_id, device.name)
        await self._check_marks(logs)

    async def log(self, conversation_id: str) -> list[Message]:
        """As somebody sees it who was not there: the truth that all are compared with."""
        member = self.conversations[conversation_id][0]
        reader = next(device.client for device in self.devices if device.user_id == member)
        entries = [entry async for entry in reader.history(conversation_id)]
        return entries[::-1]

    def _check_logs(self, logs: dict[str, list[Message]]) -> None:
        for name, log in logs.items():
            assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
            texts = [entry.text for entry in log if entry.kind == "message"]
            for device in self.devices:
                mine = [text for text in texts if text and text.startswith(f"{device.user_id}/{device.name} ")]
                assert mine == device.sent.get(name, []), "what was sent, once, in the order of its device"
            assert len(texts) == sum(len(device.sent.get(name, [])) for device in self.devices)

    async def _check_marks(self, logs: dict[str, list[Message]]) -> None:
        """Unread counts every message of others and no other; reading them all turns every tick."""
        for device in self.devices:
            await device.client.inbox()  # answered: it is here. A tick that moves while it is away is told by no event
        for device in self.devices[:: len(DEVICES)]:
            totals = await device.client.unread()
            mine = self.of(device.user_id)
            foreign = [e for name in mine for e in logs[name] if e.kind == "message" and e.sender_id != device.user_id]
            assert totals.total_unread == len(foreign)
            for name in mine:
                state = await device.client.mark_read(name, len(logs[name]))
                assert state.unread_count == 0
            assert (await device.client.unread()).total_unread == 0
        for device in self.devices:
            for name in self.of(device.user_id):
                await self._check_ticks(device, name, logs[name])

    async def _check_ticks(self, device: Device, name: str, log: list[Message]) -> None:
        last = max((e.seq for e in log if e.kind == "message" and e.sender_id == device.user_id), default=0)
        for other in set(self.conversations[name]) - {device.user_id}:
            await eventually(partial(device.is_read_by, name, other, last), f"ticks of {other}")
            marks = [r.read_seq for r in device.receipts if (r.conversation_id, r.user_id) == (name, other)]
            assert marks == sorted(marks), "ticks never go back"
        page = await device.client.page(name)
        assert page.read_all_seq >= last and page.delivered_all_seq >= page.read_all_seq


def places(entries: list[Message]) -> list[tuple[int, str | None]]:
    return [(entry.seq, entry.text) for entry in entries]


async def eventually(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(SETTLE_S):
        while not condition():
            await asyncio.sleep(0.02)
    assert condition(), what


@asynccontextmanager
async def open_journey(port: int, token: Callable[[str], str]) -> AsyncIterator[Journey]:
    """Three people with two devices each, a group of all and a direct conversation of each pair."""
    async with AsyncExitStack() as stack:
        devices = []
        for user_id in PEOPLE:
            for name in DEVICES:
                proxy = await stack.enter_async_context(open_proxy(port))
                client = Client(f"http://127.0.0.1:{proxy.port}", partial(token, user_id), device=name)
                events: Stream[MessageNew | Receipt] = client.events(MessageNew, Receipt)
                await stack.enter_async_context(client)
                device = Device(user_id, name, proxy, client)
                task = asyncio.create_task(device.listen(events), name=f"listen-{user_id}-{name}")
                stack.callback(task.cancel)
                devices.append(device)
        yield Journey(devices, await conversations_of(devices))


async def conversations_of(devices: list[Device]) -> dict[str, tuple[str, ...]]:
    alice, bob = devices[0].client, devices[len(DEVICES)].client
    group = await alice.create("group", ["bob", "carol"], name="all")
    return {
        group.conversation_id: PEOPLE,
        await alice.direct("bob"): ("alice", "bob"),
        await alice.direct("carol"): ("alice", "carol"),
        await bob.direct("carol"): ("bob", "carol"),
    }
