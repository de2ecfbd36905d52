"""Open the keyspace of a URL: one server, the primary that sentinels name, or a cluster. The scheme says which."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidings.clock import Clock
from tidings.stores.keyspace import hash_slots, sentinel
from tidings.stores.keyspace.cluster import ClusterKeyspace, open_cluster
from tidings.stores.keyspace.link import Link
from tidings.stores.keyspace.sentinel import Sentinels, parse_sentinel_url
from tidings.stores.keyspace.server import SingleKeyspace, open_keyspace, open_link
from tidings.stores.keyspace.wire import spelled

AnyKeyspace = SingleKeyspace | ClusterKeyspace


def is_cluster(url: str) -> bool:
    return spelled(url).startswith(f"{hash_slots.SCHEME}:")


def has_sentinels(url: str) -> bool:
    return spelled(url).startswith(f"{sentinel.SCHEME}:")


async def open_any(
    url: str, scripts: Iterable[str], clock: Clock, count: Callable[[int], None] = lambda commands: None
) -> AnyKeyspace:
    """Raises Unavailable with a reason of one line, and ValueError for a bad URL."""
    if is_cluster(url):
        return await open_cluster(url, scripts, clock, count)
    if has_sentinels(url):
        place = parse_sentinel_url(url)
        return await open_link(Link(place.server, scripts, clock, count, Sentinels(place, clock).locate))
    return await open_keyspace(url, scripts, clock, count)
