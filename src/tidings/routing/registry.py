"""Leases: which connection of a user is live on which node, and which nodes there are.

A lease is one member of `ws:{user}` with its expiry; each connection writes and removes only its own, and a dead node's
run out by themselves; they stay listed, and say when the user was last seen there. A node that is alone asks for no
leases at all: its hub knows every socket there is. It learns of a second node from that node's own word
(routing/bus.py) before the newcomer listens, and from the list of nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from tidings.bounds import (
    CLOCKS_APART_S,
    DEVICES_REMEMBERED_MAX,
    INDEX_TTL_S,
    JOIN_WAIT_S,
    LEASE_S,
    NODE_LEASE_S,
    NODE_RENEW_S,
)
from tidings.clock import Clock
from tidings.errors import Close, StoreError, Unavailable
from tidings.routing.bus import Bus, Closing, Joined, Known
from tidings.routing.hub import Hub, Outbound
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.keys import Keys
from tidings.stores.scripts_routing import session_release

log = logging.getLogger("tidings.registry")


class Registry:
    def __init__(self, keyspace: Keyspace, keys: Keys, hub: Hub, bus: Bus, clock: Clock, node_id: str) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._hub = hub
        self._bus = bus
        self._clock = clock
        self._node_id = node_id
        self._until_ms = 0  # our own lease, as we wrote it last
        self._was_lost = False  # our place on the list; and the others are not back on it yet
        self._written: set[float] = set()  # the ends of it that may be on record: who finds another did not write it
        self._others: frozenset[str] = frozenset()
        self._heard: dict[str, float] = {}  # nodes that said themselves that they live, and when
        self._unaware: set[str] = set()  # nodes that we told of us, and who have not said that they route to us
        self._all_know = asyncio.Event()
        self._renewed_s = clock.monotonic_s()  # all leases of our connections
        self._claimed_ms: dict[str, int] = {}  # by connection_id
        self._in_doubt: set[str] = set()  # connections whose renewal failed half-way: their leases may have been gone
        self._tasks: set[asyncio.Task[None]] = set()

    # --- nodes ------------------------------------------------------------------------------------

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    @property
    def others(self) -> frozenset[str]:
        return self._others

    def lease_time_ms(self) -> int:
        """What to ask leases with: 0 while this node is alone."""
        return self._clock.now_ms() if self._others else 0

    def heard_of(self, node_id: str) -> None:
        if node_id != self._node_id:
            self._heard[node_id] = self._clock.monotonic_s()
            self._others |= {node_id}
            self._bus.post(node_id, Known(self._node_id))

    def known_to(self, node_id: str) -> None:
        self._unaware.discard(node_id)
        if not self._unaware:
            self._all_know.set()

    async def join(self) -> None:
        """Say that we live, and wait until the others know, before the first socket is taken. Raises Unavailable."""
        await self._refuse_double(await self._noted_ms())  # before we write: who comes later must not end who is there
        await self.renew_node()
        await self._refuse_double(self._until_ms)  # of two who come at once, the last to write stays
        await self.tell_others()

    async def _refuse_double(self, noted_ms: float) -> None:
        """Somebody else who listens under our name is an earlier life of ours, unless they go on renewing it: two nodes
        of one name would each take the other's sockets for its own."""
        if await self._bus.tell(self._node_id, Joined(self._node_id)) <= 1:
            return
        await asyncio.sleep(2 * NODE_RENEW_S)
        if await self._noted_ms() not in (0, noted_ms):
            raise Unavailable(f"another node runs as {self._node_id!r}: give each node its own node.id")

    async def _noted_ms(self) -> float:
        """When the lease of a node of our name ends; 0: there is none."""
        return float(await self._keyspace.one(plain(self._keys.nodes, b"ZSCORE", self._keys.nodes, self._node_id)) or 0)

    async def tell_others(self) -> None:
        """Returns when they route to us: each says so. Who hears nothing now reads the list of nodes in its turn."""
        if not self._others:
            return
        self._unaware = set(self._others)
        self._all_know.clear()
        for node_id in self._others:
            await self._bus.tell(node_id, Joined(self._node_id))
        with suppress(TimeoutError):
            async with asyncio.timeout(NODE_RENEW_S + JOIN_WAIT_S):
                await self._all_know.wait()

    async def bury(self, node_id: str) -> None:
        """That node is known to be dead: its lease ends now, so that its work is finished at once."""
        await self._keyspace.one(plain(self._keys.nodes, b"ZADD", self._keys.nodes, b"XX", 0, node_id))

    async def renew_node(self) -> bool:
        """Our own lease, and who else has one. True: ours was gone, so nobody may have routed to us for a while. One
        that we did not write was gone too: what was written with it (messaging/repair.py) stands for us meanwhile."""
        key, now_ms = self._keys.nodes, self._clock.now_ms()
        self._until_ms = now_ms + int(NODE_LEASE_S * 1000)
        expected, lasting = self._written, {end_ms for end_ms in self._written if end_ms >= now_ms}
        self._written = lasting | {self._until_ms}
        calls: list[Call[Any]] = [
            plain(key, b"ZSCORE", key, self._node_id),
            plain(key, b"ZADD", key, self._until_ms, self._node_id),
            plain(key, b"ZRANGE", key, now_ms, b"+inf", b"BYSCORE"),
        ]
        until_ms, _, names = await self._keyspace.run(calls)
        self._written = {self._until_ms}
        self._was_lost |= until_ms is None or float(until_ms) not in expected
        if self._was_lost and self._others:
            # The list was lost. Who lives is on it again in a moment; who died must not be forgotten with its work.
            known = [part for name in self._others for part in (self._until_ms, name)]
            await self._keyspace.one(plain(key, b"ZADD", key, b"NX", *known))
        self._others = (frozenset(name.decode() for name in names) | self._newcomers()) - {self._node_id}
        was_lost, self._was_lost = self._was_lost, False
        return was_lost or float(until_ms) < now_ms

    def _newcomers(self) -> set[str]:
        """Their word may overtake a list that was read before they were in it."""
        now_s = self._clock.monotonic_s()
        self._heard = {node_id: at_s for node_id, at_s in self._heard.items() if now_s - at_s < NODE_RENEW_S}
        return set(self._heard)

    async def leave(self) -> None:
        """The last word: first what connections that have gone had to say. A node that could not finish everything
        leaves as a dead one, so that another finishes it."""
        await asyncio.gather(*self._tasks)
        opened = self._keys.open(self._node_id)
        nodes, is_unfinished = self._keys.nodes, await self._keyspace.one(plain(opened, b"SCARD", opened))
        last_word = (b"ZADD", nodes, 0) if is_unfinished else (b"ZREM", nodes)
        await self._keyspace.one(plain(nodes, *last_word, self._node_id))

    # --- connections ------------------------------------------------------------------------------

    async def claim(self, outbound: Outbound) -> None:
        """Announce a connection; where its device is live elsewhere, that one goes. Before `hello`."""
        announced = self._announce(outbound)
        if outbound.device is None:
            await self._keyspace.run(announced)
            return
        self._claimed_ms[outbound.connection_id] = self._clock.now_ms()
        # Asked in the same breath as it is announced: of two nodes with the same device, the second sees the first.
        session = self._keys.session(outbound.user_id)
        asked: list[Call[Any]] = [plain(session, b"HGET", session, outbound.device), plain(session, b"HLEN", session)]
        earlier, count, *_ = await self._keyspace.run([*asked, *announced])
        if earlier is not None:
            self._replace(outbound.user_id, earlier.decode().partition(" ")[0], outbound)
        if count > DEVICES_REMEMBERED_MAX:
            await self._forget_oldest(session)

    def release(self, outbound: Outbound) -> None:
        """The connection is gone: take down its own lease, and only that."""
        ws, lease = self._keys.ws(outbound.user_id), self._lease(outbound)
        self._claimed_ms.pop(outbound.connection_id, None)
        self._in_doubt.discard(outbound.connection_id)
        calls: list[Call[Any]] = [plain(ws, b"ZREM", ws, lease)]
        if outbound.device is not None:
            now_ms = self._clock.now_ms()
            calls.append(session_release(self._keys, outbound.user_id, outbound.device, lease=lease, now_ms=now_ms))
        self._later(calls)

    async def renew(self, on_lost: Callable[[str], None]) -> None:
        """All our leases, in few round trips. `on_lost`: this user's lease was gone, so entries may have passed by."""
        began_s = self._clock.monotonic_s()
        is_late = began_s - self._renewed_s > LEASE_S  # they ran out, even where they are still listed
        outbounds = list(self._hub)
        for start in range(0, len(outbounds), 500):
            # Only who is still here: the lease of a connection that went meanwhile has been taken down.
            chunk = [one for one in outbounds[start : start + 500] if self._is_here(one)]
            for one in await self._renew(chunk, is_late):
                if self._is_here(one):
                    on_lost(one.user_id)
        self._renewed_s = began_s

    async def _renew(self, chunk: list[Outbound], is_late: bool) -> list[Outbound]:
        """Those whose leases were gone. They are announced again, with their device."""
        until_ms = self._clock.now_ms() + int(LEASE_S * 1000)
        keys = [self._keys.ws(one.user_id) for one in chunk]
        adds = [plain(key, b"ZADD", key, until_ms, self._lease(one)) for key, one in zip(keys, chunk, strict=True)]
        expires = [plain(key, b"EXPIRE", key, INDEX_TTL_S) for key in keys]
        doubted, ids = set(self._in_doubt), {one.connection_id for one in chunk}
        self._in_doubt |= ids
        replies = await self._keyspace.run([*adds, *expires])
        gone = zip(chunk, replies, strict=False)
        lost = [one for one, was_gone in gone if was_gone or is_late or one.connection_id in doubted]
        if lost:
            await self._announce_again(lost)
        self._in_doubt -= ids
        return lost

    async def _announce_again(self, lost: list[Outbound]) -> None:
        """Unless the lease was taken down because the device is live elsewhere, and the word of it was lost."""
        sessions = [self._keys.session(one.user_id) for one in lost]
        held = await self._keyspace.run(
            [plain(key, b"HGET", key, one.device or "") for key, one in zip(sessions, lost, strict=True)]
        )
        calls: list[Call[Any]] = []
        for one, noted in zip(lost, held, strict=True):
            if noted is not None and one.device is not None and self._is_replaced(one, noted.decode()):
                one.close(Close.REPLACED)
            elif self._is_here(one):
                calls += self._announce(one)
        await self._keyspace.run(calls)

    def _is_replaced(self, outbound: Outbound, noted: str) -> bool:
        """By a connection that is later beyond doubt. An earlier one may be noted after a failover that lost its tail,
        and is no more; and a client that is told to be replaced does not come back."""
        lease, _, at_ms = noted.partition(" ")
        claimed_ms = self._claimed_ms.get(outbound.connection_id, 0)
        is_later = int(at_ms or 0) > claimed_ms + int(CLOCKS_APART_S * 1000)
        return lease not in ("-", self._lease(outbound)) and is_later

    def _is_here(self, outbound: Outbound) -> bool:
        return outbound in self._hub.of_user(outbound.user_id)

    async def nodes_of(self, user_ids: Iterable[str]) -> dict[str, set[str]]:
        """Other nodes -> the users who are connected there."""
        ids = list(user_ids)
        if not self._others or not ids:
            return {}
        now_ms = self._clock.now_ms()
        keys = [self._keys.ws(user_id) for user_id in ids]
        replies = await self._keyspace.run([plain(key, b"ZRANGE", key, now_ms, b"+inf", b"BYSCORE") for key in keys])
        nodes: dict[str, set[str]] = {}
        for user_id, leases in zip(ids, replies, strict=True):
            for lease in leases:
                node_id = lease.decode().partition(":")[0]
                if node_id != self._node_id:
                    nodes.setdefault(node_id, set()).add(user_id)
        return nodes

    async def is_online(self, user_ids: Iterable[str]) -> dict[str, bool]:
        """From live leases, wherever they are."""
        ids, now_ms = list(user_ids), self._clock.now_ms()
        keys = [self._keys.ws(user_id) for user_id in ids]
        counts = await self._keyspace.run([plain(key, b"ZCOUNT", key, now_ms, b"+inf") for key in keys])
        return {user_id: bool(count or self._hub.of_user(user_id)) for user_id, count in zip(ids, counts, strict=True)}

    def last_renewed(self, user_id: str) -> Call[int | None]:
        """When a lease that nobody took down was last renewed, ms: the last sign of a user whose node died."""
        key = self._keys.ws(user_id)
        return plain(key, b"ZRANGE", key, 0, 0, b"REV", b"WITHSCORES", parse=_renewed_ms)

    def _announce(self, outbound: Outbound) -> list[Call[Any]]:
        now_ms = self._clock.now_ms()
        ws, session = self._keys.ws(outbound.user_id), self._keys.session(outbound.user_id)
        lease = self._lease(outbound)
        calls: list[Call[Any]] = [
            plain(ws, b"ZADD", ws, now_ms + int(LEASE_S * 1000), lease),
            plain(ws, b"ZREMRANGEBYSCORE", ws, b"-inf", now_ms),
            plain(ws, b"EXPIRE", ws, INDEX_TTL_S),
        ]
        if outbound.device is not None:
            calls.append(plain(session, b"HSET", session, outbound.device, f"{lease} {now_ms}"))
            calls.append(plain(session, b"EXPIRE", session, INDEX_TTL_S))
        return calls

    async def _forget_oldest(self, session: str) -> None:
        """A client that makes up a device name each time must not fill the keyspace."""
        fields = await self._keyspace.one(plain(session, b"HGETALL", session))
        ages = {fields[i]: fields[i + 1].partition(b" ")[2] for i in range(0, len(fields), 2) if fields[i] != b"*"}
        oldest = sorted(ages, key=lambda device: int(ages[device] or 0))[: len(ages) - DEVICES_REMEMBERED_MAX // 2]
        await self._keyspace.one(plain(session, b"HDEL", session, *oldest))

    def _replace(self, user_id: str, lease: str, outbound: Outbound) -> None:
        node_id, _, connection_id = lease.partition(":")
        if connection_id and node_id != self._node_id and connection_id != outbound.connection_id:
            ws = self._keys.ws(user_id)
            self._later([plain(ws, b"ZREM", ws, lease)])
            self._bus.post(node_id, Closing(Close.REPLACED, user_id, connection_id))

    def _lease(self, outbound: Outbound) -> str:
        return f"{self._node_id}:{outbound.connection_id}"

    def _later(self, calls: list[Call[Any]]) -> None:
        task = asyncio.get_running_loop().create_task(self._run_quietly(calls), name="lease")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_quietly(self, calls: list[Call[Any]]) -> None:
        try:
            await self._keyspace.run(calls)
        except StoreError as error:
            log.info("a lease runs out by itself: %s", error)


def _renewed_ms(reply: list[Any]) -> int | None:
    """[lease, its expiry]"""
    return int(float(reply[1])) - int(LEASE_S * 1000) if reply else None
