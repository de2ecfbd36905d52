"""Registry: leases, which say which connection of a user is live on which node, and which nodes there are.

A lease is one member of `ws:{user}` with its end time. A connection writes and removes its own lease only. Leases of
a dead node run out by themselves; they stay listed, and say when the user was last seen there. A node that is alone
reads no leases at all: its hub knows every connection there is. It learns of a second node from that node's own
announcement (bus.py) before the newcomer accepts connections, and from the list of nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
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
from tidings.routing.hub import Connection, Hub
from tidings.routing.lease_clock import LeaseClock
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.session import session_release

_EXPIRE_AGAIN_S = 86_400.0  # far below INDEX_TTL_S: a renewal sets the expiry of a key once a day

log = logging.getLogger("tidings.registry")


class Registry:
    def __init__(self, keyspace: Keyspace, keys: Keys, hub: Hub, bus: Bus, clock: Clock, node_id: str) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._hub = hub
        self._bus = bus
        self._leases = LeaseClock(keyspace, keys, clock)
        self._clock = clock
        self._node_id = node_id
        self._until_ms = 0  # the end of our own lease, as we wrote it last
        self._lapses_s = float("inf")  # the same on our monotonic clock, once this node has joined
        self._was_lost = False  # our entry in the list of nodes was gone, and the others are not back on it yet
        self._written: set[float] = set()  # ends of it that may be stored: any other end was not written by us
        self._others: frozenset[str] = frozenset()
        self._heard: dict[str, float] = {}  # nodes that announced themselves, and when
        self._awaited: set[str] = set()  # nodes that were announced to by name
        self._listeners = 0  # how many other nodes heard our announcement
        self._confirmed: set[str] = set()  # nodes that answered it: they route to us
        self._all_know = asyncio.Event()
        self._renewed_s = clock.monotonic_s()  # when the leases of all our connections were renewed
        self._expires_s = self._renewed_s + _EXPIRE_AGAIN_S  # when their keys get a new expiry
        self._claimed_ms: dict[str, int] = {}  # by connection_id
        self._in_doubt: set[str] = (
            set()
        )  # connections whose renewal has an unknown outcome: their leases may have been gone
        self._tasks: set[asyncio.Task[None]] = set()

    # --- nodes ------------------------------------------------------------------------------------

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    @property
    def others(self) -> frozenset[str]:
        return self._others

    def now_ms(self) -> int:
        """The time by which leases are written and read."""
        return self._leases.now_ms()

    async def read_clock(self) -> None:
        """Ask the keyspace for its time, before dates of entries are compared with it. Raises StoreError."""
        await self._leases.read()

    def earliest_ms(self, ago_s: float) -> int:
        """The lowest date that an entry of the last `ago_s` seconds may have."""
        return self._leases.earliest_ms(ago_s)

    def has_lapsed(self) -> bool:
        """Whether our lease has run out since the last renewal: this node was stopped, or the keyspace was away."""
        return self._clock.monotonic_s() > self._lapses_s

    def lease_time_ms(self) -> int:
        """The time to read leases with. 0 while this node is alone: then none are read."""
        return self._leases.now_ms() if self._others else 0

    def node_joined(self, node_id: str) -> None:
        if node_id != self._node_id:
            self._heard[node_id] = self._clock.monotonic_s()
            self._others |= {node_id}
            self._bus.publish(node_id, Known(self._node_id))

    def known_by(self, node_id: str) -> None:
        """Record that a node answers our announcement. It listens, so it lives, whatever the list of nodes says."""
        self._heard[node_id] = self._clock.monotonic_s()
        self._others |= {node_id}
        self._confirmed.add(node_id)
        self._check_confirmed()

    def _check_confirmed(self) -> None:
        if self._awaited <= self._confirmed and len(self._confirmed) >= self._listeners:
            self._all_know.set()

    async def join(self) -> None:
        """Announce this node and wait until the others know, before the first connection. Raises Unavailable."""
        await self._refuse_double(await self._noted_ms())  # before we write: a newcomer must not end a node that runs
        await self.renew_node()
        await self._refuse_double(self._until_ms)  # of two nodes that start at once, the last to write stays
        await self.announce_node()
        self._lapses_s = self._clock.monotonic_s() + NODE_LEASE_S

    async def _refuse_double(self, noted_ms: float) -> None:
        """Refuse to start beside a node of the same name: each would take the other's connections for its own.

        A listener of our name is our own earlier process, unless it goes on renewing the lease."""
        if await self._bus.publish_now(self._node_id, Joined(self._node_id)) <= 1:
            return
        await asyncio.sleep(2 * NODE_RENEW_S)
        if await self._noted_ms() not in (0, noted_ms):
            raise Unavailable(f"another node runs as {self._node_id!r}: give each node its own node.id")

    async def _noted_ms(self) -> float:
        """The end of the lease of a node of our name; 0: there is none."""
        return float(await self._keyspace.one(plain(self._keys.nodes, b"ZSCORE", self._keys.nodes, self._node_id)) or 0)

    async def announce_node(self) -> None:
        """Announce this node. Returns when each node has confirmed that it routes to us.

        The channel of all nodes finds those that a list which was just lost does not name. A node that does not hear
        the announcement reads the list of nodes with its next heartbeat."""
        self._awaited, self._confirmed, self._listeners = set(self._others), set(), 0
        self._all_know.clear()
        heard = await self._bus.publish_to_all(Joined(self._node_id))
        self._listeners = max(heard - self._bus.is_up, 0)  # we hear it too
        for node_id in self._awaited:
            await self._bus.publish_now(node_id, Joined(self._node_id))
        self._check_confirmed()
        with suppress(TimeoutError):
            async with asyncio.timeout(NODE_RENEW_S + JOIN_WAIT_S):
                await self._all_know.wait()

    async def bury(self, node_id: str) -> None:
        """End the lease of a node that is known to be dead, so that its open work is taken over at once."""
        await self._keyspace.one(plain(self._keys.nodes, b"ZADD", self._keys.nodes, b"XX", 0, node_id))

    async def renew_node(self) -> bool:
        """Renew our own lease, and read which other nodes have one.

        True: ours was gone, so for a while no node may have routed to us. A lease that we did not write counts as gone
        too: open work that was written under it (send/open_work.py) stands for us meanwhile."""
        await self._leases.read()
        began_s = self._clock.monotonic_s()
        key, now_ms = self._keys.nodes, self._leases.now_ms()
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
            # The list was lost. Live nodes are on it again in a moment; a dead one must not be forgotten with its work.
            known = [part for name in self._others for part in (self._until_ms, name)]
            await self._keyspace.one(plain(key, b"ZADD", key, b"NX", *known))
        self._others = (frozenset(name.decode() for name in names) | self._newcomers()) - {self._node_id}
        was_lost, self._was_lost = self._was_lost, False
        if self._lapses_s < float("inf"):
            self._lapses_s = began_s + NODE_LEASE_S
        return was_lost or float(until_ms) < now_ms

    def _newcomers(self) -> set[str]:
        """Nodes that were heard of late: a list that was read before they were on it, or lost, does not name them."""
        now_s = self._clock.monotonic_s()
        self._heard = {node_id: at_s for node_id, at_s in self._heard.items() if now_s - at_s < 2 * NODE_RENEW_S}
        return set(self._heard)

    async def leave(self) -> None:
        """Leave the list of nodes, after the leases of connections that have gone were removed.

        A node with open work leaves as a dead one, so that another node takes the work over."""
        await asyncio.gather(*self._tasks)
        opened = self._keys.open(self._node_id)
        nodes, is_unfinished = self._keys.nodes, await self._keyspace.one(plain(opened, b"SCARD", opened))
        last_word = (b"ZADD", nodes, 0) if is_unfinished else (b"ZREM", nodes)
        await self._keyspace.one(plain(nodes, *last_word, self._node_id))

    # --- connections ------------------------------------------------------------------------------

    async def claim(self, connection: Connection, beside: Sequence[Call[Any]] = ()) -> list[Any]:
        """Write the lease of a connection, before its `hello`. Another connection of its device closes.

        `beside` are reads of the same user, in the same round trip and behind the lease. Returns their answers."""
        announced, device = self._announce(connection), connection.device
        if device is None:
            return (await self._keyspace.run([*announced, *beside]))[len(announced) :]
        self._claimed_ms[connection.connection_id] = self._leases.now_ms()
        # One round trip reads and writes: of two nodes with the same device, the second sees the first.
        session = self._keys.session(connection.user_id)
        asked: list[Call[Any]] = [plain(session, b"HGET", session, device), plain(session, b"HLEN", session)]
        earlier, count, *answers = await self._keyspace.run([*asked, *announced, *beside])
        if earlier is not None:
            self._replace(connection.user_id, earlier.decode().partition(" ")[0], connection)
        if count > DEVICES_REMEMBERED_MAX:
            await self._forget_oldest(session)
        return answers[len(announced) :]

    def release(self, connection: Connection) -> None:
        """Remove the lease of a connection that is gone, and only that lease."""
        ws, lease = self._keys.ws(connection.user_id), self._lease(connection)
        self._claimed_ms.pop(connection.connection_id, None)
        self._in_doubt.discard(connection.connection_id)
        calls: list[Call[Any]] = [plain(ws, b"ZREM", ws, lease)]
        if connection.device is not None:
            now_ms = self._leases.now_ms()
            calls.append(session_release(self._keys, connection.user_id, connection.device, lease=lease, now_ms=now_ms))
        self._later(calls)

    async def renew(self, on_lost: Callable[[str], None]) -> None:
        """Renew all our leases. `on_lost`: the lease of this user was gone, so entries may have been missed."""
        began_s = self._clock.monotonic_s()
        is_late = began_s - self._renewed_s > LEASE_S  # they ran out, even where they are still listed
        connections = list(self._hub)
        for start in range(0, len(connections), 500):
            # The lease of a connection that went meanwhile has been removed, and must not be written again.
            chunk = [one for one in connections[start : start + 500] if self._is_here(one)]
            for one in await self._renew(chunk, is_late, is_expiring=began_s >= self._expires_s):
                if self._is_here(one):
                    on_lost(one.user_id)
        self._renewed_s = began_s
        if began_s >= self._expires_s:
            self._expires_s = began_s + _EXPIRE_AGAIN_S

    async def _renew(self, chunk: list[Connection], is_late: bool, *, is_expiring: bool) -> list[Connection]:
        """Returns the connections whose leases were gone. Their leases are written again, with their devices."""
        until_ms = self._leases.now_ms() + int(LEASE_S * 1000)
        keys = [self._keys.ws(one.user_id) for one in chunk]
        adds = [plain(key, b"ZADD", key, until_ms, self._lease(one)) for key, one in zip(keys, chunk, strict=True)]
        expires = [plain(key, b"EXPIRE", key, INDEX_TTL_S) for key in keys] if is_expiring else []
        doubted, ids = set(self._in_doubt), {one.connection_id for one in chunk}
        self._in_doubt |= ids
        replies = await self._keyspace.run([*adds, *expires])
        gone = zip(chunk, replies, strict=False)
        lost = [one for one, was_gone in gone if was_gone or is_late or one.connection_id in doubted]
        if lost:
            await self._announce_again(lost)
        self._in_doubt -= ids
        return lost

    async def _announce_again(self, lost: list[Connection]) -> None:
        """Write leases again, unless one was removed because its device is live elsewhere."""
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

    def _is_replaced(self, connection: Connection, noted: str) -> bool:
        """True when the device's recorded connection is surely later than this one.

        After a failover that lost the last writes, the recorded connection may be an earlier one that is gone. A client
        whose connection closes as replaced does not come back, so a doubtful case is no replacement."""
        lease, _, at_ms = noted.partition(" ")
        claimed_ms = self._claimed_ms.get(connection.connection_id, 0)
        is_later = int(at_ms or 0) > claimed_ms + int(CLOCKS_APART_S * 1000)
        return lease not in ("-", self._lease(connection)) and is_later

    def _is_here(self, connection: Connection) -> bool:
        return connection in self._hub.of_user(connection.user_id)

    async def nodes_of(self, user_ids: Iterable[str]) -> dict[str, set[str]]:
        """The other nodes, each with those of the users who are connected there."""
        ids = list(user_ids)
        if not self._others or not ids:
            return {}
        now_ms = self._leases.now_ms()
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
        """Which of the users have a live lease on any node."""
        ids, now_ms = list(user_ids), self._leases.now_ms()
        keys = [self._keys.ws(user_id) for user_id in ids]
        counts = await self._keyspace.run([plain(key, b"ZCOUNT", key, now_ms, b"+inf") for key in keys])
        return {user_id: bool(count or self._hub.of_user(user_id)) for user_id, count in zip(ids, counts, strict=True)}

    def elsewhere(self, user_id: str, until_ms: int | None = None) -> Call[bool]:
        """Whether the user has a live lease on another node, one that ends by `until_ms` at the latest."""
        key, own = self._keys.ws(user_id), f"{self._node_id}:".encode()
        end = b"+inf" if until_ms is None else until_ms
        return plain(
            key,
            *(b"ZRANGE", key, self._leases.now_ms(), end, b"BYSCORE"),
            parse=lambda leases: any(not lease.startswith(own) for lease in leases),
        )

    def last_renewed(self, user_id: str) -> Call[int | None]:
        """When a lease that was never removed was last renewed, ms: the last sign of a user whose node died."""
        key = self._keys.ws(user_id)
        return plain(key, b"ZRANGE", key, 0, 0, b"REV", b"WITHSCORES", parse=_renewed_ms)

    def _announce(self, connection: Connection) -> list[Call[Any]]:
        now_ms = self._leases.now_ms()
        ws, session = self._keys.ws(connection.user_id), self._keys.session(connection.user_id)
        lease = self._lease(connection)
        calls: list[Call[Any]] = [
            plain(ws, b"ZADD", ws, now_ms + int(LEASE_S * 1000), lease),
            plain(ws, b"ZREMRANGEBYSCORE", ws, b"-inf", now_ms),
            plain(ws, b"EXPIRE", ws, INDEX_TTL_S),
        ]
        if connection.device is not None:
            calls.append(plain(session, b"HSET", session, connection.device, f"{lease} {now_ms}"))
            calls.append(plain(session, b"EXPIRE", session, INDEX_TTL_S))
        return calls

    async def _forget_oldest(self, session: str) -> None:
        """Forget the oldest devices: a client that makes up a device name each time must not fill the keyspace."""
        fields = await self._keyspace.one(plain(session, b"HGETALL", session))
        ages = {fields[i]: fields[i + 1].partition(b" ")[2] for i in range(0, len(fields), 2) if fields[i] != b"*"}
        oldest = sorted(ages, key=lambda device: int(ages[device] or 0))[: len(ages) - DEVICES_REMEMBERED_MAX // 2]
        await self._keyspace.one(plain(session, b"HDEL", session, *oldest))

    def _replace(self, user_id: str, lease: str, connection: Connection) -> None:
        node_id, _, connection_id = lease.partition(":")
        if connection_id and node_id != self._node_id and connection_id != connection.connection_id:
            ws = self._keys.ws(user_id)
            self._later([plain(ws, b"ZREM", ws, lease)])
            self._bus.publish(node_id, Closing(Close.REPLACED, user_id, connection_id))

    def _lease(self, connection: Connection) -> str:
        return f"{self._node_id}:{connection.connection_id}"

    def _later(self, calls: list[Call[Any]]) -> None:
        task = asyncio.get_running_loop().create_task(self._run_quietly(calls), name="lease")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_quietly(self, calls: list[Call[Any]]) -> None:
        try:
            await self._keyspace.run(calls)
        except StoreError as error:
            log.info("lease not changed; it runs out by itself", extra={"store": "keyspace", "cause": str(error)})


def _renewed_ms(reply: list[Any]) -> int | None:
    """`reply` is [lease, its end]."""
    return int(float(reply[1])) - int(LEASE_S * 1000) if reply else None
