"""A node's pending deliveries and push on real stores, with a carrier of our own that keeps what it was given."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.support.clocks import AheadClock
from tests.support.waiting import eventually
from tidings.bounds import PUSH_SHARDS
from tidings.config.settings import Settings
from tidings.messaging.push.content import Notices
from tidings.messaging.push.device_acks import DeviceAcks
from tidings.messaging.push.due import DueConversations
from tidings.messaging.push.worker import PushWorker
from tidings.model import Content, Entry, Provider
from tidings.node.graph import Core, open_core
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.scripts.push import SOURCES, PushScripts
from tidings.stores.push.ports import SENT, Notice, Outcome
from tidings.stores.tables.ports import Devices, Pending
from tidings.stores.tables.values import Device, Waiting

LEASE_S = 3_600.0  # of a job, where no test may wait for its end


class Carrier:
    """A provider of push. Takes everything, unless it is told to answer otherwise for a token."""

    def __init__(self) -> None:
        self.told: list[Notice] = []
        self.answers: dict[str, list[Outcome]] = defaultdict(list)  # by token, used up in order
        self.gate: asyncio.Event | None = None
        self.is_closed = False

    async def send(self, notice: Notice) -> Outcome:
        self.told.append(notice)
        if self.gate is not None:
            await self.gate.wait()
        answers = self.answers[notice.device.token]
        return answers.pop(0) if answers else SENT

    async def close(self) -> None:
        self.is_closed = True

    def of(self, device_id: str) -> list[Notice]:
        return [notice for notice in self.told if notice.device.device_id == device_id]


class PostOffice:
    def __init__(self, core: Core, carrier: Carrier, clock: AheadClock, *, grace_s: float) -> None:
        self.core = core
        self.carrier = carrier
        self.clock = clock
        self.devices: Devices = core.tables.devices
        self.pending: Pending = core.tables.pending
        self.scripts = PushScripts(core.keys)
        self.acks = DeviceAcks(core.keyspace, core.keys)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.notices = Notices(core.access, core.tables.log, core.tables, core.unread, core.clock, has_preview=False)
        self.grace_s = grace_s
        self.notify = self.worker("one")
        self.due = self.checker()
        self._messages = 0

    def worker(self, node_id: str, **fields: Any) -> PushWorker:
        """Another node's worker on the same stores."""
        values: dict[str, Any] = {
            "keyspace": self.core.keyspace,
            "scripts": self.scripts,
            "acks": self.acks,
            "devices": self.devices,
            "notices": self.notices,
            "providers": {"apns": self.carrier, "fcm": self.carrier},
            "clock": self.clock,
            "node_id": node_id,
            "count": lambda provider, outcome: self.counts.update([(provider, outcome)]),
        }
        return PushWorker(**(values | fields))

    def checker(self, **fields: Any) -> DueConversations:
        """Another node's look at what is due."""
        values: dict[str, Any] = {
            "keyspace": self.core.keyspace,
            "scripts": self.scripts,
            "access": self.core.access,
            "blocks": self.core.blocks,
            "tables": self.core.tables,
            "pending": self.pending,
            "worker": self.notify,
            "clock": self.clock,
            "grace_s": self.grace_s,
        }
        return DueConversations(**(values | fields))

    async def create(self, *user_ids: str, **fields: Any) -> str:
        kind = fields.pop("kind", "group")
        view, _ = await self.core.directory.create(user_ids[0], kind=kind, members=list(user_ids[1:]), **fields)
        return view.head.conversation_id

    async def send(
        self, sender_id: str, conversation_id: str, text: str = "hello", due: DueConversations | None = None
    ) -> Entry:
        """Stored, indexed and recorded as due, in this order."""
        self._messages += 1
        sent = await self.core.sends.send(sender_id, conversation_id, f"m{self._messages}", Content(text))
        await self.record((due or self.due), sent.entry)
        return sent.entry

    async def record(self, due: DueConversations, entry: Entry) -> int:
        """How many calls it took."""
        calls = due.calls([(entry.conversation_id, entry.sent_ms)])
        await self.core.keyspace.run(calls)
        return len(calls)

    async def register(
        self, user_id: str, device_id: str = "phone", provider: Provider = "apns", token: str = ""
    ) -> Device:
        device = Device(
            user_id=user_id, device_id=device_id, provider=provider, token=token or f"token-{user_id}-{device_id}"
        )
        await self.devices.put(device)
        return device

    async def receive(self, user_id: str, conversation_id: str, seq_no: int, device: str | None = None) -> None:
        """A device acknowledges, as a socket's frame would."""
        await self.core.tables.statuses.deliver([(conversation_id, user_id, seq_no)])
        self.due.received([(conversation_id, user_id, seq_no, 0)])
        self.notify.acknowledged(user_id, device, {conversation_id: seq_no})
        await self.acks.flush()
        await self.due.flush()

    async def pass_grace(self, entry: Entry, due: DueConversations | None = None) -> None:
        """Look until everything up to this entry was looked at, and wait for nothing else."""
        checker = due or self.due
        await self._until(lambda: checker._examined.get(entry.conversation_id, 0) >= entry.seq_no, checker)

    async def _until(self, is_so: Any, checker: DueConversations) -> None:
        async with asyncio.timeout(60):
            while not is_so():
                await checker.check()
                await asyncio.sleep(0.01)

    async def work(self, worker: PushWorker | None = None) -> None:
        """Carry out every job there is."""
        mine = worker or self.notify
        while await mine.take(64):
            await eventually(lambda: not mine._under_way)

    async def waiting(self, conversation_id: str, *user_ids: str) -> dict[str, tuple[int, int]]:
        rows: dict[str, Waiting] = await self.pending.of_conversation(conversation_id, user_ids)
        return {user_id: (row.first_seq, row.last_seq) for user_id, row in rows.items()}

    async def command(self, *words: str | int) -> Any:
        return await self.core.keyspace.one(plain("", *words))

    async def jobs(self) -> int:
        """Unfinished ones, wherever they are."""
        keys = self.core.keys
        streams = [await self.command("XLEN", keys.push(shard)) for shard in range(PUSH_SHARDS)]
        later = [await self.command("ZCARD", keys.push_later(shard)) for shard in range(PUSH_SHARDS)]
        return int(sum(streams) + sum(later))

    async def let_go(self, node_id: str) -> set[str]:
        """End the leases of a worker that was killed. Returns the users whose jobs it had."""
        users: set[str] = set()
        for stream in map(self.core.keys.push, range(PUSH_SHARDS)):
            for job_id, *_ in await self.command("XPENDING", stream, "notify", "-", "+", 1_000, node_id):
                ((_, (_, job)),) = await self.command("XRANGE", stream, job_id.decode(), job_id.decode())
                users.add(msgspec.json.decode(job)["user_id"])
                idle_ms = int(LEASE_S * 1000) + 1
                await self.command("XCLAIM", stream, "notify", node_id, 0, job_id.decode(), "IDLE", idle_ms, "JUSTID")
        return users

    async def dead(self) -> list[tuple[str, str]]:
        """(job, reason) of the dead letters."""
        found: Sequence[Any] = await self.command("XRANGE", self.core.keys.push_dead, "-", "+")
        return [(fields[1].decode(), fields[3].decode()) for _, fields in found]


@asynccontextmanager
async def open_office(settings: Settings, *, grace_s: float = 0.2) -> AsyncIterator[PostOffice]:
    clock = AheadClock()
    async with open_core(settings, clock) as core:
        await core.keyspace.run([plain("", b"SCRIPT", b"LOAD", source) for source in SOURCES.values()])
        yield PostOffice(core, Carrier(), clock, grace_s=grace_s)
