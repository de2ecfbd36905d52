"""A node of a simulated world: the real object graph of wiring.py on simulated stores, without a socket."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tidings.bounds import Limit
from tidings.config.settings import Archive, Limits, Node, Settings, Unread
from tidings.errors import Problem, StoreError
from tidings.messaging.search.indexer import EVERY_S
from tidings.messaging.send.draft import Draft
from tidings.node.graph import build
from tidings.node.stores import Stores
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.sqlite.adapter import tables_on
from tidings.stores.tables.sqlite.search.index import SqliteSearch
from tidings.telemetry.metrics import Metrics
from tidings_proof.simulation.blobs import SimBlobs, SimFiles
from tidings_proof.simulation.stores import IDENTITY, SimClock, SimKeyspace, SimThreads, Wire

if TYPE_CHECKING:
    from tidings_proof.simulation.devices import Connection
    from tidings_proof.simulation.world import World


@cache
def _metrics() -> Metrics:
    """Nobody reads them here, and they are slow to make."""
    return Metrics()


def _settings(node_id: str, send: Limit | None, unread: tuple[int, str], members_large: int) -> Settings:
    return dataclasses.replace(
        Settings(),
        node=Node(id=node_id),
        limits=Limits(send=send, read=None, typing=None, connect=None, http=None, create=None),
        archive=Archive(after_days=0),
        unread=Unread(cap=unread[0], policy=unread[1]),
        members_large=members_large,
    )


class SimNode:
    def __init__(self, world: World, node_id: str) -> None:
        loop, weather = world.loop, world.weather
        self.world = world
        self.node_id = node_id
        self.party = loop.party(node_id, self._died)
        self.clock = SimClock(loop, world.dice, ahead_ms=-world.dice.randrange(400))
        self.unread = world.unread  # its settings
        self.connections: list[Connection] = []
        self.is_up = False
        self._kept: list[Any] = []  # what a dead node had under way is not collected, or its `finally` would run
        wire = {store: Wire(loop, weather, self.party, store) for store in ("keyspace", "tables", "blobs")}
        reads = cast(Any, SimThreads(Wire(loop, weather, self.party, "tables"), world.tx, is_writer=False))
        writes = cast(Any, SimThreads(wire["tables"], world.tx, is_writer=True))
        self.core = self.party.context.run(
            build,
            Stores(
                settings=_settings(node_id, world.send_limit, world.unread, world.plan.members_large),
                clock=self.clock,
                metrics=_metrics(),
                keyspace=cast(Any, SimKeyspace(loop, wire["keyspace"], world.server, self.party)),
                tables=tables_on(IDENTITY, reads, writes, self.clock, self._index()),
                blobs=SimBlobs(wire["blobs"], world.objects, world.object_data, self.clock),
                files=SimFiles(wire["blobs"], world.objects, world.object_data, self.clock),
                keys=Keys(),
            ),
        )
        self.starting = self.spawn(self._start())

    def _index(self) -> SqliteSearch | None:
        """The index that all nodes share, over wires of its own."""
        world = self.world
        if world.index is None:
            return None
        wire = Wire(world.loop, world.weather, self.party, "tables")
        reads, writes = (SimThreads(wire, world.index, is_writer=is_writer) for is_writer in (False, True))
        return SqliteSearch(cast(Any, reads), cast(Any, writes))

    @property
    def is_dead(self) -> bool:
        return self.party.is_dead

    async def _start(self) -> None:
        """As node.py does it: known to the others before the first socket."""
        while not self.is_up:
            try:
                await self.core.heartbeat.start()
                self.is_up = True
            except StoreError:
                await asyncio.sleep(0.2)
        while self.world.index is not None:
            await self.core.searching.indexer.follow()
            await asyncio.sleep(EVERY_S)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """In the node: it dies with it."""
        task = self.party.context.copy().run(self.world.loop.create_task, work)
        self._kept.append(task)
        return task

    async def ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        """A request of a client. Raises Problem or StoreError, and `Gone` when the node dies meanwhile."""
        if self.is_dead:
            work.close()
            raise Gone()
        answer = self.world.loop.create_future()
        self.world.pending[answer] = None
        answer.node = self  # type: ignore[attr-defined]

        async def carry_out() -> None:
            result, error = None, None
            try:
                result = await work
            except (Problem, StoreError) as raised:
                error = raised
            except Exception as raised:
                self.world.note(f"a request failed with {raised!r}")
                error = StoreError(repr(raised))
            if not answer.done():
                answer.set_exception(error) if error is not None else answer.set_result(result)

        self.spawn(carry_out())
        try:
            return await answer
        finally:
            self.world.pending.pop(answer, None)

    def submit(self, draft: Draft) -> None:
        """In the node's own turn."""
        self.world.loop.call_soon(self.core.sends.submit, draft, context=self.party.context.copy())

    def leave(self, connection: Connection) -> None:
        """As connections.py does it."""
        self.core.hub.detach(connection)
        self.core.registry.release(connection)
        self.core.sends.forget(connection.connection_id)

    def _died(self) -> None:
        for answer in [one for one in self.world.pending if one.node is self]:
            if not answer.done():
                answer.set_exception(Gone())
        for connection in list(self.connections):
            connection.cut()


class Gone(Exception):
    """The node a client spoke to is no more."""
