"""The sockets of this node, by user. It knows nothing of a socket but `Outbound`, so a test or a simulation can be one.

Local recipients always come from here, never from leases in the keyspace: a node that is alive knows its own sockets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tidings.bounds import CONNECTIONS_PER_USER_MAX
from tidings.errors import Close
from tidings.model import Event


class Outbound(Protocol):
    """One live connection, as seen from inside."""

    user_id: str
    connection_id: str
    device: str | None

    def push(self, event: Event) -> None:
        """Queue an event. Never blocks, never raises."""
        ...

    def close(self, code: Close, reason: str = "") -> None: ...


class Hub:
    """user_id -> connections, in the order they came."""

    def __init__(self) -> None:
        self._by_user: dict[str, list[Outbound]] = {}

    def attach(self, outbound: Outbound) -> bool:
        """False when the user has too many. The same device again replaces the older connection."""
        mine = self._by_user.setdefault(outbound.user_id, [])
        if outbound.device is not None:
            for older in [o for o in mine if o.device == outbound.device]:
                mine.remove(older)
                older.close(Close.REPLACED, "the same device connected again")
        if len(mine) >= CONNECTIONS_PER_USER_MAX:
            return False
        mine.append(outbound)
        return True

    def detach(self, outbound: Outbound) -> None:
        mine = self._by_user.get(outbound.user_id)
        if mine is None or outbound not in mine:
            return
        mine.remove(outbound)
        if not mine:
            del self._by_user[outbound.user_id]

    def of_user(self, user_id: str) -> Sequence[Outbound]:
        return self._by_user.get(user_id, ())

    def push(self, user_id: str, event: Event, *, but: str | None = None) -> None:
        """To every connection of a user on this node, except connection `but`."""
        for outbound in self._by_user.get(user_id, ()):
            if outbound.connection_id != but:
                outbound.push(event)

    def users(self) -> Iterator[str]:
        return iter(self._by_user)

    def __len__(self) -> int:
        return sum(len(mine) for mine in self._by_user.values())
