"""Outbound: requests to endpoints that the team has named. No request of ours raises, and none goes astray.

A name is resolved once, and the connection goes to that very address. An address that is not public is refused, unless
the settings allow it: an endpoint must not be a way into the network of the node. Redirects are not followed and the
environment's proxies are not used. Of an answer only the beginning is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpcore2

from tidings.bounds import URL_CHARS_MAX

_TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
_CONNECTIONS_MAX = 64  # of a node to all endpoints
_KEPT_MAX = 16  # of these, kept open while they are idle
_CAUSE_CHARS_MAX = 200  # of the reason of a failure that is kept


class Answer(NamedTuple):
    """The answer of an endpoint. Status 0: there was none, and `cause` says why."""

    status: int
    cause: str = ""
    body: bytes = b""

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return f"{self.status} {self.cause}".strip() if self.status else self.cause


class NotPublic(OSError):
    """The endpoint has an address that is not public."""


def is_public(address: str) -> bool:
    """Whether the address is of the public network, and does not stand for another address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif any(found in network for network in _TRANSLATED):
            return False
    return found.is_global and not found.is_multicast


def fault_of(url: str, *, allows_private: bool) -> str | None:
    """The reason why this cannot be the URL of an endpoint; None: it can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in ("http", "https") or not host or len(url) > URL_CHARS_MAX or not url.isascii():
        return "it must begin with https:// and name a host, in ASCII"
    if parts.username is not None or parts.password is not None or parts.fragment or any(c <= " " for c in url):
        return "it may have no user name, password, fragment or blank"
    if allows_private:
        return None
    if parts.scheme != "https":
        return "it must begin with https://"
    try:
        is_private = not is_public(host)
    except ValueError:  # a name: its address is checked when it is connected to
        return None
    return "its address is not public" if is_private else None


def signature(secret: str, now_ms: int, body: bytes) -> str:
    """The value of the header Tidings-Signature."""
    mac = hmac.new(secret.encode(), b"%d." % now_ms + body, hashlib.sha256).hexdigest()
    return f"t={now_ms},v1={mac}"


class Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the address that was checked, and to no other."""

    def __init__(self, allows_private: bool) -> None:
        self._allows_private = allows_private
        self._net = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        address = await self._resolve(host, port)
        return await self._net.connect_tcp(address, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._net.sleep(seconds)

    async def _resolve(self, host: str, port: int) -> str:
        """The first address of the host. Where one of its addresses is not public, it has none."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(one[4][0]) for one in found]
        if not self._allows_private and not all(map(is_public, addresses)):
            raise NotPublic(f"{host} has an address that is not public")
        return addresses[0]


class Outbound:
    def __init__(self, *, allows_private: bool, connections_max: int = _CONNECTIONS_MAX) -> None:
        self.allows_private = allows_private
        self._pool = httpcore2.AsyncConnectionPool(
            max_connections=connections_max,
            max_keepalive_connections=max(_KEPT_MAX, connections_max // 4),
            keepalive_expiry=30.0,
            network_backend=Pinned(allows_private),
        )

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, within_s: float, answer_bytes_max: int = 0
    ) -> Answer:
        """Post JSON. The answer has `answer_bytes_max` bytes of body at most; a longer one is cut off."""
        sent = {"content-type": "application/json", "user-agent": "tidings", **headers}
        named = [(name.encode(), value.encode()) for name, value in sent.items()]
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), within_s)
        try:
            async with (
                asyncio.timeout(within_s),
                self._pool.stream(
                    "POST", url, headers=named, content=body, extensions={"timeout": timeouts}
                ) as response,
            ):
                return Answer(response.status, body=await _beginning(response, answer_bytes_max))
        except TimeoutError:
            return Answer(0, f"no answer within {within_s:g} s")
        except (OSError, ValueError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            return Answer(0, f"{type(error).__name__} {error}".strip()[:_CAUSE_CHARS_MAX])
        except (httpcore2.TimeoutException, httpcore2.PoolTimeout):
            return Answer(0, f"no answer within {within_s:g} s")

    async def close(self) -> None:
        await self._pool.aclose()


async def _beginning(response: httpcore2.Response, most: int) -> bytes:
    body = bytearray()
    if most:
        async for chunk in response.aiter_stream():
            body += chunk
            if len(body) > most:
                break
    return bytes(body[:most])
