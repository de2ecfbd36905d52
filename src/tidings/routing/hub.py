"""The sockets of this node, by user. It knows nothing of a socket but `Outbound`, so a test or a simulation can be one.

Local recipients always come from here, never from leases in the keyspace: a node that is alive knows its own sockets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tidings.bounds import CONNECTIONS_PER_USER_MAX
from tidings.errors import Close
from tidings.model import Event


class Outbound(Protocol):
    """One live connection, as seen from inside."""

    user_id: str
    connection_id: str
    device: str | None
    opened_s: float  # when it came, by the node's monotonic clock
    resumed: dict[str, int]  # conversation -> up to where a resume has brought it: live entries begin above

    def push(self, event: Event) -> None:
        """Queue an event. Never blocks, never raises."""
        ...

    def push_now(self, event: Event) -> None:
        """Ahead of what `push` holds back while a resume is under way: the resume's own events."""
        ...

    def close(self, code: Close, reason: str = "") -> None: ...

    async def drained(self) -> None:
        """Returns when the reader keeps up."""
        ...


class Hub:
    """user_id -> connections, in the order they came. A push may close a slow socket and so detach it: whoever walks a
    user's connections walks a tuple that nobody changes."""

    def __init__(self) -> None:
        self._by_user: dict[str, tuple[Outbound, ...]] = {}

    def attach(self, outbound: Outbound) -> bool:
        """False when the user has too many. The same device again replaces the older connection."""
        if outbound.device is not None:
            for older in [o for o in self.of_user(outbound.user_id) if o.device == outbound.device]:
                self.detach(older)
                older.close(Close.REPLACED, "the same device connected again")
        mine = self._by_user.get(outbound.user_id, ())
        if len(mine) >= CONNECTIONS_PER_USER_MAX:
            return False
        self._by_user[outbound.user_id] = (*mine, outbound)
        return True

    def detach(self, outbound: Outbound) -> None:
        left = tuple(one for one in self._by_user.get(outbound.user_id, ()) if one is not outbound)
        if left:
            self._by_user[outbound.user_id] = left
        else:
            self._by_user.pop(outbound.user_id, None)

    def of_user(self, user_id: str) -> Sequence[Outbound]:
        return self._by_user.get(user_id, ())

    def present(self, user_ids: Mapping[str, object]) -> set[str]:
        """Who of them has a connection here. Costs what the smaller of the two groups has."""
        return self._by_user.keys() & user_ids.keys()

    def push(self, user_id: str, event: Event, *, but: str | None = None) -> None:
        """To every connection of a user on this node, except connection `but`."""
        for outbound in self._by_user.get(user_id, ()):
            if outbound.connection_id != but:
                outbound.push(event)

    def users(self) -> Iterator[str]:
        return iter(self._by_user)

    def __iter__(self) -> Iterator[Outbound]:
        return (outbound for mine in self._by_user.values() for outbound in mine)

    def __len__(self) -> int:
        return sum(len(mine) for mine in self._by_user.values())
