"""Hub: the connections of this node, by user.

Recipients on this node always come from here, never from leases in the keyspace: a node that is alive knows its own
connections. The hub knows nothing of a socket but `Connection`, so a test or a simulation can be one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tidings.bounds import CONNECTIONS_PER_USER_MAX
from tidings.errors import Close
from tidings.pushes import Event


class Connection(Protocol):
    """One live connection of one device, as the messaging rooms see it."""

    user_id: str
    connection_id: str
    device: str | None
    opened_s: float  # on the node's monotonic clock

    def push(self, event: Event) -> None:
        """Queue an event. Never blocks, never raises."""
        ...

    def push_now(self, event: Event) -> None:
        """Write an event of the resume, ahead of the live events that `push` holds back meanwhile. After a `Resumed`
        no live entry of the conversation at or below its `to_seq` is written."""
        ...

    def close(self, code: Close, reason: str = "") -> None: ...

    async def drained(self) -> None:
        """Returns when the reader keeps up."""
        ...


class Hub:
    """user_id -> connections, in the order they came.

    A push may close a slow connection and so detach it. Therefore a user's connections are a tuple that never changes.
    """

    def __init__(self) -> None:
        self._by_user: dict[str, tuple[Connection, ...]] = {}
        self._count = 0

    def attach(self, connection: Connection) -> bool:
        """False when the user has too many. The same device again replaces the older connection."""
        if connection.device is not None:
            for older in [one for one in self.of_user(connection.user_id) if one.device == connection.device]:
                self.detach(older)
                older.close(Close.REPLACED, "the same device connected again")
        mine = self._by_user.get(connection.user_id, ())
        if len(mine) >= CONNECTIONS_PER_USER_MAX:
            return False
        self._by_user[connection.user_id] = (*mine, connection)
        self._count += 1
        return True

    def detach(self, connection: Connection) -> None:
        mine = self._by_user.get(connection.user_id, ())
        left = tuple(one for one in mine if one is not connection)
        self._count -= len(mine) - len(left)
        if left:
            self._by_user[connection.user_id] = left
        else:
            self._by_user.pop(connection.user_id, None)

    def of_user(self, user_id: str) -> Sequence[Connection]:
        return self._by_user.get(user_id, ())

    def present(self, user_ids: Mapping[str, object]) -> set[str]:
        """Those of the users who are connected here. The cost grows with the smaller of the two groups."""
        return self._by_user.keys() & user_ids.keys()

    def push(self, user_id: str, event: Event, *, but: str | None = None) -> None:
        """Push to every connection of a user on this node, except connection `but`."""
        for connection in self._by_user.get(user_id, ()):
            if connection.connection_id != but:
                connection.push(event)

    def users(self) -> Iterator[str]:
        return iter(self._by_user)

    def __iter__(self) -> Iterator[Connection]:
        return (connection for mine in self._by_user.values() for connection in mine)

    def __len__(self) -> int:
        return self._count

    @property
    def users_count(self) -> int:
        return len(self._by_user)
