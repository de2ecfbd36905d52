"""Oddities: conditions outside of a node's own work, under which every promise must hold as well.

Two servers take themselves for the primary for a while. Clocks go back at a failover. The cap and the policy of unread
counts change by a restart. Tables refuse writes of hot keys. Strangers send and acknowledge what is not theirs. A
server evicts keys. People do more than send and read, and share files while an index follows the log. A member is
removed and comes back through one node while others send through all of them. Tables hardly answer for seconds, and
clients send the first of their messages again alone. Pushes go out one at a time, with pauses. Each is played during
the whole time of trouble, from the seed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidings import bounds
from tidings.errors import Problem, StoreError
from tidings.messaging.deliver import fan_out
from tidings.messaging.send.draft import Draft
from tidings.model import Content, Sent
from tidings_proof.sabotage.seams import replace
from tidings_proof.simulation.beside import play_beside
from tidings_proof.simulation.finding import play_finding
from tidings_proof.simulation.nodes import Gone

if TYPE_CHECKING:
    from tidings_proof.simulation.devices import Device
    from tidings_proof.simulation.world import World

KINDS = (
    *("two_primaries", "clock_back", "settings", "throttle", "strangers", "evict", "beside", "finding"),
    *("removals", "tables_away", "slices"),
)
STRANGER = "mallory"
CAPS = (2, 3, 5, 10_000)
POLICIES = ("until_read", "when_offline")


class Oddities:
    """Oddities: play what the plan names, until the trouble ends."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice
        self._evict_in = 0.0
        self._strange = 0  # messages of strangers

    async def play(self) -> None:
        for kind in self._world.plan.oddities:
            await getattr(self, f"_play_{kind}")()

    def end(self) -> None:
        """Peace: one primary, no refusals, and every node with the settings of now."""
        world = self._world
        replace(fan_out, "PUSHES_AT_ONCE", bounds.PUSHES_AT_ONCE)
        world.weather.throttle = 0.0
        world.server.join()
        for node in world.live_nodes():
            if node.unread != world.unread:
                world.loop.bury(node.party)
                world.start_node(node.node_id)

    async def _pause(self, share: float = 1.0) -> None:
        whole_s = self._world.plan.pause_s * self._world.plan.deeds
        await asyncio.sleep(self._dice.random() * whole_s * share)

    async def _play_two_primaries(self) -> None:
        """A replica is promoted while some nodes still reach the old primary."""
        world = self._world
        await self._pause()
        nodes = world.live_nodes()
        staying = self._dice.sample(nodes, self._dice.randint(1, len(nodes)))
        world.tell(f"two primaries: {[node.node_id for node in staying]} stay with the old one")
        world.server.split({node.party for node in staying})
        await self._pause()
        world.tell("one primary again")
        world.server.join()

    async def _play_clock_back(self) -> None:
        """The server that takes over has another time, and so may a node."""
        world = self._world
        for _ in range(self._dice.choice((1, 2))):
            await self._pause()
            snapshot = world.server.valkey.snapshot() if self._dice.random() < 0.5 else None
            await self._pause(0.2)
            world.server.ahead_ms = self._dice.choice((-3_600_000, -6_000, -50, 0, 6_000))
            node = world.some_node()
            if node is not None and self._dice.random() < 0.5:
                node.clock.set_back(self._dice.choice((50, 6_000)))
            world.tell(f"a failover: the time is {world.server.ahead_ms} ms off")
            if snapshot is not None:
                world.server.valkey.restore(snapshot)
            world.server.begin_anew()

    async def _play_settings(self) -> None:
        """Nodes are started anew one after the other, with another cap or policy; the keyspace stays."""
        world = self._world
        for _ in range(self._dice.choice((1, 2))):
            await self._pause()
            world.unread = (self._dice.choice(CAPS), self._dice.choice(POLICIES))
            world.tell(f"unread settings: {world.unread}")
            for node in world.live_nodes():
                await self._pause(0.2)
                if not node.is_dead:
                    world.loop.bury(node.party)
                    world.start_node(node.node_id)

    async def _play_throttle(self) -> None:
        for _ in range(2):
            await self._pause(0.5)
            self._world.weather.throttle = self._dice.choice((0.1, 0.5, 0.9))
            await self._pause(0.5)
            self._world.weather.throttle = 0.0

    async def _play_strangers(self) -> None:
        """Somebody who is a member of nothing sends into every conversation, and into some that do not exist."""
        world = self._world
        for _ in range(self._dice.choice((5, 20))):
            await self._pause(0.1)
            node = world.some_node()
            if node is None:
                continue
            targets = [*world.conversation_ids, "no-such-conversation", f"no-{self._strange}"]
            for conversation_id in self._dice.choices(targets, k=self._dice.choice((1, 8))):
                self._strange += 1
                node.submit(
                    Draft(
                        sender_id=STRANGER,
                        conversation_id=conversation_id,
                        message_id=f"strange{self._strange}",
                        content=Content("let me in"),
                        origin="a stranger",
                        reply=self._answered,
                    )
                )
            acks = {conversation_id: self._dice.randint(1, 99) for conversation_id in targets}
            world.loop.call_soon(node.core.receipts.delivered, STRANGER, acks, context=node.party.context.copy())

    async def _play_beside(self) -> None:
        """People mention, react, pin and flag while nodes die and wires fail."""
        self._world.weather.trouble["keyspace"] = self._dice.choice((0.0, 0.05))
        self._world.weather.trouble["tables"] = self._dice.choice((0.0, 0.05))
        await play_beside(self._world)

    async def _play_finding(self) -> None:
        """People share files, and delete, while nodes die and an index follows the log."""
        await play_finding(self._world)

    async def _play_removals(self) -> None:
        """One member is removed and comes back, again and again, while everybody sends through all nodes."""
        world, dice = self._world, self._dice
        world.weather.slowness = dice.choice((0.1, 0.3))
        for number in range(dice.choice((20, 60))):
            await asyncio.sleep(dice.random() * 0.02)
            self._send_by(dice.choice(world.devices), world.conversation_ids[0])
            if number % 6 == 5:
                world.spawn(self._change_members(world.conversation_ids[0], is_back=number % 12 == 11))

    async def _play_slices(self) -> None:
        """The same, while each push waits for a commit that takes its time."""
        replace(fan_out, "PUSHES_AT_ONCE", 1)

        async def quiet() -> None:
            is_peace = vars(fan_out)["PUSHES_AT_ONCE"] > 1
            await asyncio.sleep(0 if is_peace else self._dice.random() * 0.1)

        for node in self._world.live_nodes():
            replace(node.core.deliver._fan_out, "quiet", quiet)
        await self._play_removals()

    async def _change_members(self, conversation_id: str, *, is_back: bool) -> None:
        node = self._world.some_node()
        if node is None:
            return
        directory = node.core.directory
        try:
            if is_back:
                await node.ask(directory.add("ann", conversation_id, ["bob"], is_server=True))
            else:
                await node.ask(directory.remove("ann", conversation_id, "bob"))
        except (Problem, StoreError, Gone) as problem:
            self._world.tell(f"bob is {'back' if is_back else 'removed'}: {type(problem).__name__} {problem}")

    def _send_by(self, device: Device, conversation_id: str) -> None:
        if device.connection is not None:
            device.send(conversation_id)
        else:
            self._world.spawn(device.connect())

    async def _play_tables_away(self) -> None:
        """Tables hardly answer for seconds. A client goes on sending, and sends again what got no answer."""
        world, dice = self._world, self._dice
        for _ in range(dice.choice((1, 2))):
            await self._pause(0.5)
            world.weather.trouble["tables"] = dice.choice((0.5, 0.8, 0.95))
            device, conversation_id = dice.choice(world.devices), dice.choice(world.conversation_ids)
            for _ in range(12):
                await asyncio.sleep(dice.random())
                self._send_by(device, conversation_id)
            world.weather.trouble["tables"] = 0.0

    def _answered(self, result: Sent | Problem) -> None:
        if isinstance(result, Sent):
            self._world.note(f"a stranger was told that {result.entry.message_id} is stored")

    async def _play_evict(self) -> None:
        """A server that is full drops keys at any moment, but for the list of nodes."""
        world = self._world
        gap = self._dice.choice((20, 60, 200))

        def evict() -> None:
            self._evict_in -= 1
            if self._evict_in > 0:
                return
            self._evict_in = self._dice.expovariate(1 / gap)
            keys = [key for key in world.server.valkey.names() if key != b"nodes"]
            if keys:
                world.server.valkey.execute((b"DEL", self._dice.choice(keys)))

        world.loop.before_step = evict
