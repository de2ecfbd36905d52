"""Dialling: a TCP connection to the host of a URL, through TLS and the proxy of the environment where they are wanted.

The certificate of the host is always checked, against the authorities that the system trusts (`SSL_CERT_FILE` names
others). `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured, for requests and for the socket alike.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from tidings_client.bounds import CHUNK_BYTES

_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_PROXIED = {"http": "http", "ws": "http", "https": "https", "wss": "https"}


class Streams(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def tls_context() -> ssl.SSLContext:
    """Make what checks certificates. Reading those of the system takes a while, so a thread does it."""
    made = await asyncio.to_thread(ssl.create_default_context)
    made.set_alpn_protocols(["http/1.1"])
    return made


def is_secure(parts: SplitResult) -> bool:
    return parts.scheme in ("https", "wss")


def host_of(parts: SplitResult) -> str:
    """Return the host and the port as the `Host` header names them."""
    name = (parts.hostname or "").encode("idna").decode()
    name = f"[{name}]" if ":" in name else name
    return name if port_of(parts) == _PORTS[parts.scheme] else f"{name}:{port_of(parts)}"


def port_of(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def proxy_of(parts: SplitResult) -> SplitResult | None:
    """Find the proxy that the environment names for this URL. Raises OSError for one of another kind."""
    found = getproxies()
    url = found.get(_PROXIED[parts.scheme]) or found.get("all")
    if not url or proxy_bypass(f"{parts.hostname}:{port_of(parts)}"):
        return None
    try:
        proxy = urlsplit(url if "://" in url else f"http://{url}")
        is_whole = proxy.hostname and proxy.port != 0  # a port that is no number raises
    except ValueError:  # its text may hold the password
        is_whole = False
    if not is_whole:
        raise OSError("the environment names a proxy that is no URL: it must be http://host:port")
    if proxy.scheme not in ("http", "https"):
        raise OSError(f"a proxy must be http:// or https://, and the environment names {proxy.scheme}://")
    return proxy


def proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(said).decode()}"}


async def dial(parts: SplitResult, tls: ssl.SSLContext | None, proxy: SplitResult | None = None) -> Streams:
    """Connect to the host itself: directly, or by a tunnel through the proxy. Raises OSError, EOFError."""
    if proxy is None:
        return await _connect(parts, tls)
    streams = await _connect(proxy, tls if is_secure(proxy) else None)
    try:
        await _tunnel(streams, parts, proxy)
        if is_secure(parts):
            assert tls is not None
            await streams.writer.start_tls(tls, server_hostname=parts.hostname)
    except BaseException:
        streams.writer.transport.abort()
        raise
    return streams


async def _connect(parts: SplitResult, tls: ssl.SSLContext | None) -> Streams:
    opened = await asyncio.open_connection(parts.hostname, port_of(parts), ssl=tls, limit=CHUNK_BYTES)
    return Streams(*opened)


async def _tunnel(streams: Streams, parts: SplitResult, proxy: SplitResult) -> None:
    name = (parts.hostname or "").encode("idna").decode()
    place = f"[{name}]:{port_of(parts)}" if ":" in name else f"{name}:{port_of(parts)}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    lines += [f"{header}: {value}" for header, value in proxy_headers(proxy).items()]
    streams.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    try:
        head = await streams.reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ConnectionRefusedError(f"the answer of the proxy {proxy.hostname} is too long") from None
    said = head.split(b"\r\n", 1)[0].decode("latin-1")
    if said.split(" ")[1:2] != ["200"]:
        raise ConnectionRefusedError(f"the proxy {proxy.hostname} refuses: {said}")
