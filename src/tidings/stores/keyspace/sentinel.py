"""Sentinels: name the primary of a group of servers, before each connection and while one is used.

A link asks here where the primary is each time it connects. While it is connected it asks again every SENTINEL_CHECK_S:
a primary that was cut off from the others still answers, but another one counts. The answer is that of most sentinels.
The link itself checks the role of the server, so an answer that is out of date costs a moment and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.link import Link
from tidings.stores.keyspace.wire import Address, ErrorReply, parse_several

SCHEME = "redis+sentinel"
PORT_DEFAULT = 26379


class SentinelPlace(NamedTuple):
    """The sentinels, the name of the group, and how to sign in to its servers."""

    sentinels: tuple[Address, ...]
    name: str
    server: Address  # without host and port


class Sentinels:
    def __init__(self, place: SentinelPlace, clock: Clock) -> None:
        self._name = place.name
        self._server = place.server
        self._links = [Link(address, (), clock, lambda commands: None) for address in place.sentinels]

    async def locate(self) -> Address:
        """The primary as most sentinels name it. Raises Unavailable."""
        answers = await asyncio.gather(*(self._ask(link) for link in self._links))
        named = Counter(answer for answer in answers if not isinstance(answer, str))
        if not named:
            raise Unavailable(f"no sentinel names a primary of {self._name}: {answers[0]}")
        (host, port), _ = named.most_common(1)[0]
        return msgspec.structs.replace(self._server, host=host, port=port)

    async def _ask(self, link: Link) -> tuple[str, int] | str:
        """The place that one sentinel names, or the reason that it names none."""
        try:
            run = await link.glance([plain("", "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)])
        except Unavailable as error:
            return str(error)
        answer = run.answers[0]
        if isinstance(answer, ErrorReply):
            return f"{link.label}: {answer}"
        if not answer:
            return f"{link.label}: it knows no group of this name"
        return answer[0].decode(), int(answer[1])


def parse_sentinel_url(url: str) -> SentinelPlace:
    """redis+sentinel://[user:password@]host:port,host:port/name[/db], and the options of a server. Raises ValueError.

    User and password are those of the servers. `?sentinel_password_file=` holds the one of the sentinels.
    """
    several = parse_several(url, SCHEME, PORT_DEFAULT, {"sentinel_password_file"})
    name, _, db = several.path.partition("/")
    if not name or not (db.isdigit() or not db):
        raise ValueError("a sentinel URL ends with the name of the group: redis+sentinel://host:26379/mymaster")
    server = msgspec.structs.replace(several.addresses[0], db=int(db or 0))
    own = {"user": "", "password": "", "password_file": several.options.get("sentinel_password_file", "")}
    sentinels = tuple(msgspec.structs.replace(address, **own) for address in several.addresses)
    return SentinelPlace(sentinels, unquote(name), server)
