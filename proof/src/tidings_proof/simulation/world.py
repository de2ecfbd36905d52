"""One simulated world: stores, a few nodes, people with devices, trouble; then peace, repairs, and the checks.

Everything that happens is decided by the seed: who does what when, what the wires lose, when a node dies and where in
its work. `play(seed)` answers what was found wrong, which must be nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from tidings.bounds import NODE_LEASE_S
from tidings.errors import Problem, StoreError
from tidings.model import ContentPatch
from tidings.node.graph import Core
from tidings.stores.blobs.ports import Blob
from tidings_proof.simulation.checks import check
from tidings_proof.simulation.devices import Device
from tidings_proof.simulation.finding import Shared, open_index
from tidings_proof.simulation.loop import OutOfSteps, SimLoop
from tidings_proof.simulation.nodes import Gone, SimNode
from tidings_proof.simulation.oddities import Oddities
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.stores import SimClock, SimServer, Weather, open_database

PEOPLE = ("ann", "bob", "cay")
DEEDS = ("send", "read", "unread", "edit", "delete", "member", "inbox", "leave")
SETTLE_S = 30.0  # longer than a node's lease, a gap and the note of a read mark that was left behind


class World:
    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.plan = plan or Plan(self.dice)
        self.loop = SimLoop(self.dice)  # type: ignore[abstract]  # what no node asks for is not there
        self.weather = Weather(self.dice)
        self.clock = SimClock(self.loop, self.dice)
        self.server = SimServer(self.loop, self.weather)
        self.tx = open_database(self.dice, self.clock.now_ms)
        self.index = open_index() if "finding" in self.plan.oddities else None
        self.shared: dict[str, Shared] = {}  # files that were uploaded whole
        self.objects: dict[str, Blob] = {}
        self.object_data: dict[str, bytes] = {}
        self.send_limit = self.plan.send_limit
        self.unread = (10_000, "until_read")  # the cap and the policy of nodes that start now
        self.oddities = Oddities(self)
        self.nodes: list[SimNode] = []
        self.devices: list[Device] = []
        self.conversation_ids: list[str] = []
        self.pending: dict[Any, None] = {}  # answers that clients wait for, in their order
        self.faults: list[str] = []  # what is wrong
        self.story: list[str] = []  # what happened, for whoever looks at a failing seed
        self.texts: dict[str, str] = {}  # message_id of an edit -> its text
        self.first_members: dict[str, frozenset[str]] = {}
        self.steps_begun = 0  # steps of the first node before anybody did anything
        self._ticks = 0
        self._losses_left, self._loss_in = self.plan.losses, 0.0  # in steps of nodes
        self._names = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._snapshot: Any = None

    # --- for the parts ------------------------------------------------------------------------------

    def note(self, fault: str) -> None:
        self.faults.append(fault)
        self.tell(f"WRONG: {fault}")

    def tell(self, what: str) -> None:
        self.story.append(f"{self.loop.time():9.4f} {what}")

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self._tasks.append(self.loop.world.context.copy().run(self.loop.create_task, work))

    def rows(self, sql: str, *bindings: Any) -> list[Any]:
        return list(self.tx.connection.execute(sql, bindings))

    def begins(self, user_id: str, conversation_id: str) -> int:
        """The number after which a member sees entries."""
        found = self.rows(
            "SELECT m.joined_seq, h.history FROM members AS m JOIN conversation_heads AS h USING (conversation_id) "
            "WHERE m.conversation_id = ? AND m.user_id = ?",
            conversation_id,
            user_id,
        )
        return int(found[0][0]) if found and found[0][1] == "joined" else 0

    def is_member(self, user_id: str, conversation_id: str) -> bool:
        sql = "SELECT 1 FROM members WHERE conversation_id = ? AND user_id = ? AND left_seq IS NULL"
        return bool(self.rows(sql, conversation_id, user_id))

    def live_nodes(self) -> list[SimNode]:
        return [node for node in self.nodes if not node.is_dead]

    def some_node(self) -> SimNode | None:
        up = [node for node in self.live_nodes() if node.is_up]
        return self.dice.choice(up) if up else None

    def start_node(self, node_id: str | None = None) -> SimNode:
        self._names += 1
        node = SimNode(self, node_id or f"n{self._names}")
        self.nodes.append(node)
        self.tell(f"node {node.node_id} starts")
        return node

    # --- the run ------------------------------------------------------------------------------------

    def play(self) -> list[str]:
        try:
            self.loop.run(self._play())
        except OutOfSteps as error:
            self.note(str(error))
        is_whole = len(self.live_nodes()) == len(self.nodes)  # of a dead node nobody takes the outcome of its tasks
        for lost in self.loop.errors if is_whole else ():
            self.note(f"nobody caught: {lost.get('message')} {lost.get('exception')!r} {lost.get('future')!r}")
        return self.faults

    def close(self) -> None:
        """Close the databases. SQLite keeps the functions of a connection, and through them the world, until then."""
        for tx in (self.tx, self.index):
            if tx is not None:
                tx.connection.close()

    async def _play(self) -> None:
        await self._begin()
        if self.plan.dies_at is not None:
            self._kill(self.nodes[0], self.plan.dies_at)
        if self.plan.losses:
            self._loss_in = self.dice.randrange(500) if self.plan.is_kind else 0.0
            self.loop.before_step = self._lose_counters
        self.weather.slow_stores = self.plan.slow_stores
        self.weather.trouble, self.weather.slowness = dict(self.plan.trouble), self.plan.slowness
        odd = [self.oddities.play()] if self.plan.oddities else []  # a task more would be another schedule
        await asyncio.gather(*(self._live(device) for device in self.devices), self._mischief(), *odd)
        await self._heal()
        await check(self)

    async def _begin(self) -> None:
        for _ in range(self.plan.nodes):
            self.start_node()
        while any(not node.is_up for node in self.nodes):
            await asyncio.sleep(0.05)
        await self._make_conversations(self.nodes[0], self.nodes[0].core.directory)
        for number, user_id in enumerate(self.plan.people):
            self.devices.append(Device(self, user_id, f"{user_id}{number}"))
        await asyncio.gather(*(device.connect() for device in self.devices))
        self.steps_begun = self.nodes[0].party.steps

    async def _make_conversations(self, node: SimNode, directory: Any) -> None:
        others = [user_id for user_id in PEOPLE if user_id in self.plan.people][1:]
        group, _ = await node.ask(directory.create("ann", kind="group", members=others, name="crew"))
        direct, _ = await node.ask(directory.create("ann", kind="direct", members=["bob"]))
        self.first_members[group.head.conversation_id] = frozenset(("ann", *others))
        self.first_members[direct.head.conversation_id] = frozenset(("ann", "bob"))
        if not self.plan.is_small:
            channel, _ = await node.ask(directory.create("bob", kind="channel", members=["ann"], name="news"))
            self.first_members[channel.head.conversation_id] = frozenset(("ann", "bob"))
        self.conversation_ids = list(self.first_members)

    async def _heal(self) -> None:
        """The end of all trouble: everybody is there, everything is answered, repairs have had their time."""
        self.tell("peace")
        self.loop.before_step = None
        self.weather.calm()
        self.oddities.end()
        for node in self.live_nodes():
            node.party.dies_at = None
        if not self.live_nodes():
            self.start_node()
        deadline_s = self.loop.time() + 60
        while self.loop.time() < deadline_s:
            await asyncio.gather(*(device.connect() for device in self.devices))
            await asyncio.sleep(1.0)
            left = [one for device in self.devices for id_ in self.conversation_ids for one in device.unanswered(id_)]
            if not left and all(device.connection is not None for device in self.devices):
                break
        else:
            self.note("sends stay without an answer")
        settled_s = self.loop.time() + SETTLE_S
        while self.loop.time() < settled_s:  # of virtual time
            await asyncio.sleep(1.0)

    # --- people -------------------------------------------------------------------------------------

    async def _live(self, device: Device) -> None:
        for _ in range(self.plan.deeds):
            await asyncio.sleep(self.dice.expovariate(1 / self.plan.pause_s))
            if device.connection is None:
                await device.connect()
                continue
            await self._deed(device)

    async def _deed(self, device: Device) -> None:
        kind = self.dice.choices(DEEDS, self.plan.deed_weights)[0]
        conversation_id = self.dice.choice(self.conversation_ids[: self.plan.conversations])
        if kind == "send":
            for _ in range(self.dice.choice(self.plan.bursts)):
                device.send(conversation_id)
            return
        if kind == "leave":
            device.disconnect(is_clean=self.dice.random() < 0.5)
            return
        connection = device.connection
        assert connection is not None
        core = connection.node.core
        work = getattr(self, f"_{kind}")(core, device, conversation_id, connection.connection_id)
        try:
            await connection.node.ask(work)
        except (Problem, StoreError, Gone) as problem:
            self.tell(f"{device.name} {kind} {type(problem).__name__} {problem}")

    def _head(self, conversation_id: str) -> int:
        found = self.rows("SELECT max(seq_no) FROM messages WHERE conversation_id = ?", conversation_id)
        return int(found[0][0] or 0)

    async def _read(self, core: Core, device: Device, conversation_id: str, origin: str) -> None:
        head = self._head(conversation_id)
        if self.dice.random() < 0.6:
            up_to = self.dice.randint(0, head)
            await core.unread.mark_read(device.user_id, conversation_id, up_to_seq=up_to, origin=origin)
        else:
            seqs = [self.dice.randint(1, head + 1) for _ in range(3)]
            await core.unread.mark_read(device.user_id, conversation_id, seqs=seqs, origin=origin)

    async def _unread(self, core: Core, device: Device, conversation_id: str, origin: str) -> None:
        from_seq = self.dice.randint(1, self._head(conversation_id) + 1)
        await core.unread.mark_unread(device.user_id, conversation_id, from_seq=from_seq, origin=origin)

    def _own(self, user_id: str, conversation_id: str) -> int:
        """A message that its sender knows of: it was acknowledged."""
        said = [one for device in self.devices if device.user_id == user_id for one in device.said]
        found = [one.seq_no for one in said if one.conversation_id == conversation_id and one.seq_no is not None]
        return self.dice.choice(found) if found else 1

    async def _edit(self, core: Core, device: Device, conversation_id: str, origin: str) -> None:
        id_ = self.clock.random_id(4)
        self.texts[id_] = f"edited {id_}"
        seq_no = self._own(device.user_id, conversation_id)
        await core.rewrites.edit(device.user_id, conversation_id, seq_no, ContentPatch(self.texts[id_]), id_)

    async def _delete(self, core: Core, device: Device, conversation_id: str, origin: str) -> None:
        await core.rewrites.delete(device.user_id, conversation_id, self._own(device.user_id, conversation_id))

    async def _member(self, core: Core, device: Device, conversation_id: str, origin: str) -> None:
        other = self.dice.choice(self.plan.people)
        if self.dice.random() < 0.6:
            # As a server, which needs nobody's consent: people who left come back.
            await core.directory.add(device.user_id, conversation_id, [other], is_server=True)
        elif not (other == device.user_id and conversation_id.startswith("d-")):  # that would hide it, not end it
            await core.directory.remove(device.user_id, conversation_id, other)

    async def _inbox(self, core: Core, device: Device, conversation_id: str, origin: str) -> None:
        await core.inbox.page(device.user_id, limit=2, cursor=None)

    # --- trouble ------------------------------------------------------------------------------------

    async def _mischief(self) -> None:
        whole_s = self.plan.pause_s * self.plan.deeds
        for _ in range(self.plan.mischief):
            await asyncio.sleep(self.dice.random() * 2 * whole_s / self.plan.mischief)
            deed = self.dice.choice(
                ("kill", "kill", "kill", "stop", "flush", "restart", "roll_back", "lose", "deafen", "archive", "join")
            )
            self.tell(deed)
            getattr(self, f"_do_{deed}")()

    def _lose_counters(self) -> None:
        """Before any step of a node, so at each of its awaits. Only the keys of the numbers go, as by an eviction."""
        self._loss_in -= 1
        if self._loss_in > 0 or not self._losses_left:
            return
        self._losses_left -= 1
        self._loss_in = self.dice.expovariate(1 / self.plan.loss_gap)
        self.tell("the counters are lost")
        for conversation_id in self.conversation_ids:
            self.server.valkey.execute((b"DEL", self.nodes[0].core.keys.conv(conversation_id)))

    def _do_kill(self) -> None:
        """Somewhere in what it does next; another node takes its place, under the same name or another."""
        node = self.some_node()
        if node is not None:
            self._kill(node, self.dice.randrange(60))

    def _kill(self, node: SimNode, in_steps: int) -> None:
        node.party.dies_at = node.party.steps + in_steps
        name = node.node_id if self.dice.random() < 0.3 else None
        self.loop.in_world(self.dice.random() * 4, self._replace, node, name)

    def _replace(self, node: SimNode, name: str | None) -> None:
        """Once it is dead: it may have done too little yet to meet its end."""
        if node.is_dead:
            self.start_node(name)
        elif node.party.dies_at is not None:
            self.loop.in_world(0.5, self._replace, node, name)

    def _do_stop(self) -> None:
        node = self.some_node()
        if node is not None:
            node.party.stopped_until_s = self.loop.time() + self.dice.choice((0.05, 1.0, 3.0))

    def _do_flush(self) -> None:
        """All keys; but while nodes come, those there are announce themselves at once, not at their next renewal: who
        joins in between takes itself for alone, and its devices wait for the next entry. That is known, not looked for.
        """
        self.server.valkey.flush()
        for node in self.live_nodes():
            until_ms = node.clock.now_ms() + int(NODE_LEASE_S * 1000)
            self.server.valkey.execute((b"ZADD", node.core.keys.nodes, until_ms, node.node_id))

    def _do_restart(self) -> None:
        self.server.begin_anew()

    def _do_roll_back(self) -> None:
        """A failover whose tail is lost: the data of some moments ago, in another life."""
        snapshot = self.server.valkey.snapshot()

        def fail_over() -> None:
            self.tell("the tail is lost")
            self.server.valkey.restore(snapshot)
            self.server.begin_anew()

        self.loop.in_world(self.dice.random() * self.plan.pause_s * 10, fail_over)

    def _do_lose(self) -> None:
        """Some keys, as after an eviction or a mistake of an operator."""
        for key in self.server.valkey.names():
            if self.dice.random() < 0.2 and key != b"nodes":
                self.server.valkey.execute((b"DEL", key))

    def _do_deafen(self) -> None:
        feed = self.server.any_feed()
        if feed is not None and not feed.is_deaf:
            self.server.deafen(feed, self.server.deaf_s)

    def _do_archive(self) -> None:
        node = self.some_node()
        if node is not None:
            self.spawn(self._archive(node))

    async def _archive(self, node: SimNode) -> None:
        try:
            await node.ask(node.core.cold.archiving.run())
        except (Problem, StoreError, Gone) as error:
            self.tell(f"archiving: {error!r}")

    def _do_join(self) -> None:
        if len(self.live_nodes()) < 4:
            self.start_node()
