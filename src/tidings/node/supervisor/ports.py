"""Ports: chooses and keeps the ports that the workers share.

A socket that is bound and does not listen keeps a port without taking a connection. So the port stays ours while
workers come and go, and port 0 means the same free port for each of them.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

from tidings.errors import Unavailable


class KeptPort:
    """A port that the workers share. Raises Unavailable when somebody else listens there."""

    def __init__(self, host: str, port: int, flag: str) -> None:
        try:
            family, kind, number, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            if port:
                _bound(family, kind, number, address, is_shared=False).close()  # fails where another program listens
            self._socket = _bound(family, kind, number, address, is_shared=True)
        except OSError as error:
            why = "the port is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
            raise Unavailable(f"cannot listen on {host}:{port}: {why}; choose with --host and {flag}") from None
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


def _bound(family: int, kind: int, number: int, address: tuple[Any, ...], *, is_shared: bool) -> socket.socket:
    one = socket.socket(family, kind, number)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
    except BaseException:
        one.close()
        raise
    return one
