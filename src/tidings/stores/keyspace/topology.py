"""Topology of a cluster, kept up to date: one link per primary, and the map from slots to links.

It guards one invariant: a slot is given to another link only after that link is up (a primary, its epoch read, scripts
loaded) and after the epoch listeners were called, in the same turn of the loop. So no call meets another life of a
server unannounced. The map is read again every CLUSTER_REFRESH_S, whenever a link is lost, and whenever somebody asks.
A slot that nobody serves keeps its last link: that server says so itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tidings.bounds import CLUSTER_REFRESH_S, CLUSTER_RETRY_S, KEYSPACE_CONNECT_S
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.hash_slots import SLOTS, Place, Shard, parse_slots, uncovered
from tidings.stores.keyspace.link import EpochListener, Link
from tidings.stores.keyspace.wire import Address, Run
from tidings.tasks import Recent, SingleFlight, cancel

log = logging.getLogger("tidings.keyspace")

_PAIRS_MAX = 10_000  # epoch changes that were announced; a forgotten one is announced once more
_QUESTION = (plain("", b"CLUSTER", b"SLOTS"),)


class Topology:
    """`owners[slot]` is the link to use; it is complete once `open` has returned."""

    def __init__(
        self, seeds: Sequence[Address], scripts: Iterable[str], clock: Clock, count: Callable[[int], None]
    ) -> None:
        self.owners: list[Link] = []
        self._seeds = tuple(seeds)
        self._scripts = tuple(scripts)
        self._clock = clock
        self._count = count
        self._shards: tuple[Shard, ...] = ()  # what the owners were made from
        self._replicas: tuple[Place, ...] = ()
        self._links: dict[Place, Link] = {}
        self._opening = SingleFlight(self._open_link)
        self._serving: frozenset[Link] = frozenset()
        self._idle: frozenset[Link] = frozenset()  # served nothing when the map was last read
        self._turn = 0  # the server to ask first: a server that hangs must not be asked first for ever
        self._told = Recent[tuple[str, str], None](_PAIRS_MAX)
        self._epoch_listeners: list[EpochListener] = []
        self._change_listeners: list[Callable[[], None]] = []
        self._nudge = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return bool(self._serving) and all(link.is_up for link in self._serving)

    def on_epoch(self, listener: EpochListener) -> None:
        self._epoch_listeners.append(listener)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Called after slots were given to other links."""
        self._change_listeners.append(listener)

    def refresh_soon(self) -> None:
        self._nudge.set()

    async def open(self) -> None:
        """Give every slot its link. Raises Unavailable. From then on the map is kept up to date until `close`."""
        try:
            await self._open_all(await self._read())
        except BaseException:
            await self.close()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="keyspace-topology")

    async def _open_all(self, shards: tuple[Shard, ...]) -> None:
        if missing := uncovered(shards):
            raise Unavailable(f"the cluster is not whole: {missing} of {SLOTS} slots are served by nobody")
        await asyncio.gather(*(self.link_to(place) for place in {shard.primary for shard in shards}))
        self.owners = [self._links[shard.primary] for shard in shards for _ in range(shard.first, shard.last + 1)]
        self._note(shards)

    async def close(self) -> None:
        await cancel(self._keeper)
        await self._opening.close()
        await asyncio.gather(*(link.close() for link in self._links.values()))

    # --- links ------------------------------------------------------------------------------------

    async def link_to(self, place: Place) -> Link:
        """The link to a primary, opened where there is none yet; raises Unavailable."""
        if (link := self._links.get(place)) is not None:
            return link
        return await self._opening(place)

    async def _open_link(self, place: Place) -> Link:
        link = self._to(place)
        await link.open()
        if not link.is_cluster:
            await link.close()
            raise Unavailable(f"{link.label}: it is a single server; its URL is redis://")
        link.on_lost(self.refresh_soon)
        link.on_epoch(self._tell)
        self._links[place] = link
        return link

    def _to(self, place: Place) -> Link:
        address = msgspec.structs.replace(self._seeds[0], host=place.host, port=place.port)
        return Link(address, self._scripts, self._clock, self._count)

    async def learn(self, slot: int, place: Place) -> Link:
        """The owner of a slot, as a refusal named it; raises Unavailable."""
        link = await self.link_to(place)
        if self.owners[slot] is not link:
            owners = self.owners.copy()
            owners[slot] = link
            self._give(owners)
            self._shards = ()
            self._nudge.set()  # other slots may have moved too
        return link

    # --- the map ----------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read the map and take over the changes. Raises Unavailable; a slot whose server is lost keeps its link."""
        shards = await self._read()
        if shards != self._shards:
            await self._take(shards)
        await self._close_idle()

    async def _take(self, shards: tuple[Shard, ...]) -> None:
        places = {shard.primary for shard in shards}
        found = await asyncio.gather(*(self.link_to(place) for place in places), return_exceptions=True)
        # A server whose view is old may name a primary that is gone: what is up is not given to what is down.
        links = {place: one for place, one in zip(places, found, strict=True) if isinstance(one, Link) and one.is_up}
        owners = self.owners.copy()
        for shard in shards:
            if (link := links.get(shard.primary)) is not None:
                owners[shard.first : shard.last + 1] = [link] * (shard.last - shard.first + 1)
        self._give(owners)
        self._note(shards if len(links) == len(places) else ())
        failures = [one for one in found if isinstance(one, BaseException)]
        if failures:
            raise failures[0]

    def _give(self, owners: list[Link]) -> None:
        """Call the epoch listeners, then change the map, without a pause between."""
        pairs = {pair for pair in zip(self.owners, owners, strict=True) if pair[0] is not pair[1]}
        for old, new in pairs:
            self._tell(old.last_epoch, new.last_epoch)
        self.owners = owners
        self._serving = frozenset(owners)
        if pairs:
            log.warning("keyspace topology changed", extra={"primaries": sorted(link.label for link in self._serving)})
            for listener in self._change_listeners:
                listener()

    def _note(self, shards: tuple[Shard, ...]) -> None:
        self._shards = shards
        self._serving = frozenset(self.owners)
        self._replicas = tuple({place for shard in shards for place in shard.replicas}) or self._replicas

    def _tell(self, old: str, new: str) -> None:
        """Call the epoch listeners once for each pair of lives, however many slots move from one server to another."""
        if old == new or (old, new) in self._told:
            return
        self._told.put((old, new), None)
        for listener in self._epoch_listeners:
            try:
                listener(old, new)
            except Exception:
                log.exception("keyspace epoch listener failed")

    async def _close_idle(self) -> None:
        """Close links that serve nothing, served nothing at the last reading either, and have nothing under way."""
        idle = frozenset(self._links.values()) - self._serving
        gone = frozenset(link for link in idle & self._idle if not link.is_busy)
        self._idle = idle - gone
        self._links = {place: link for place, link in self._links.items() if link not in gone}
        await asyncio.gather(*(link.close() for link in gone))

    # --- asking -----------------------------------------------------------------------------------

    async def _read(self) -> tuple[Shard, ...]:
        """Read the map from the first server that answers."""
        reasons = []
        for link, attempt in self._attempts():
            try:
                async with asyncio.timeout(KEYSPACE_CONNECT_S):
                    answer = (await attempt).answers[0]
                return parse_slots(answer, link.address.host)
            except TimeoutError:
                reasons.append(f"{link.label}: no answer")
            except Unavailable as error:
                reasons.append(str(error))
            except ValueError:
                reasons.append(f"{link.label}: {_refusal(answer)}")
        raise Unavailable(reasons[0] if reasons else "the cluster names no server")

    def _attempts(self) -> Iterator[tuple[Link, Awaitable[Run]]]:
        """The servers to ask, in turn: links that are up, then, on new connections, servers of the URL and replicas."""
        up = [link for link in self._links.values() if link.is_up]
        self._turn += 1
        for n in range(len(up)):
            link = up[(self._turn + n) % len(up)]
            yield link, link.exchange(_QUESTION)
        for address in self._seeds:
            link = Link(address, (), self._clock, self._count)
            yield link, link.glance(_QUESTION)
        for place in self._replicas:
            link = self._to(place)
            yield link, link.glance(_QUESTION)

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLUSTER_REFRESH_S if self.is_up and self._shards else CLUSTER_RETRY_S):
                    await self._nudge.wait()
            self._nudge.clear()
            try:
                await self.refresh()
            except Unavailable as error:
                log.debug("keyspace topology not read", extra={"cause": str(error)})
            await asyncio.sleep(CLUSTER_RETRY_S)


def _refusal(answer: Any) -> str:
    return str(answer).partition(", with args")[0][:160] if isinstance(answer, Exception) else "not a topology"
