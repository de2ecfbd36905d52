"""Stream lag: counts the entries of each stream that its consumer group has not finished, for the metrics.

The workers of all nodes are one group, so every node reads the same figure; an alert takes the largest of them.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings import bounds
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.audit import GROUP
from tidings.stores.keyspace.streams import read_lag
from tidings.tasks import Loop

_PUSH_GROUP = "notify"


class StreamLags:
    """`show(stream, entries)` puts a figure on the page of metrics."""

    def __init__(self, keyspace: Keyspace, keys: Keys, show: Callable[[str, int], None]) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._show = show
        self.loop = Loop("stream lag", bounds.STREAM_LAG_S, self.read, is_eager=True)

    async def read(self) -> None:
        """Raises StoreError."""
        audits = [self._keys.audit(shard) for shard in range(bounds.AUDIT_SHARDS)]
        pushes = [self._keys.push(shard) for shard in range(bounds.PUSH_SHARDS)]
        for stream, group, keys in (("audit", GROUP, audits), ("push", _PUSH_GROUP, pushes)):
            lags = [await read_lag(self._keyspace, key, group) for key in keys]
            self._show(stream, sum(lag.waiting + lag.pending for lag in lags))
