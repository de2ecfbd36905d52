"""The REST surface as a table: a `Route` says path, method, what it takes, what it answers and who may call it.

http.py serves the table and openapi.py documents it, so neither can say something else. `Router` finds a route with
one dict lookup per path segment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tidings.errors import BadRequest, Unauthorized
from tidings.gateway.auth import Caller
from tidings.gateway.protocol import INTEGER_MAX
from tidings.model import is_id

Access = Literal["user", "profile", "operator", "server", "open"]


@dataclass(slots=True)
class Request:
    """What an operation is given: decoded, validated, and from a known caller."""

    method: str
    params: tuple[str, ...]  # in the order of the path
    caller: Caller
    query: Any
    body: Any
    peer: str | None
    headers: Sequence[tuple[bytes, bytes]]

    @property
    def user_id(self) -> str:
        if self.caller.user_id is None:
            raise Unauthorized("X-User-Id says for whom")
        return self.caller.user_id

    def id(self, position: int = 0) -> str:
        """A path segment as a user or conversation id."""
        text = self.params[position]
        if not is_id(text):
            raise BadRequest("not an id")
        return text

    def seq(self, position: int = 1) -> int:
        text = self.params[position]
        if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= INTEGER_MAX):
            raise BadRequest("not a seq")
        return int(text)


class Reply(msgspec.Struct, frozen=True):
    """An answer: `body` is a struct, or bytes that are ready, of `content_type`. `headers` replace the usual ones."""

    status: int
    body: msgspec.Struct | bytes | None = None
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def ids_of(text: str | None) -> list[str]:
    """Of `user_ids` in a query."""
    ids = text.split(",") if text else []
    if not all(is_id(id_) for id_ in ids):
        raise BadRequest("user_ids are ids with commas between them")
    return ids


Operation = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    run: Operation
    summary: str
    access: Access = "user"
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    is_body_optional: bool = False
    answer: type[msgspec.Struct] | None = None
    statuses: tuple[int, ...] = (200,)
    errors: tuple[str, ...] = ()

    @property
    def param_names(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class _Node:
    __slots__ = ("any", "named", "routes")

    def __init__(self) -> None:
        self.named: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, Route] = {}


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for part in route.path.split("/")[1:]:
            if part.startswith("{"):
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.named.setdefault(part, _Node())
        assert route.method not in node.routes, f"{route.method} {route.path} twice"
        node.routes[route.method] = route

    def find(self, path: str) -> tuple[dict[str, Route], tuple[str, ...]] | None:
        """The routes of this path by method, and the values of its parameters."""
        node, params = self._root, []
        for part in path.split("/")[1:]:
            following = node.named.get(part)
            if following is None:
                following = node.any
                params.append(part)
            if following is None:
                return None
            node = following
        return (node.routes, tuple(params)) if node.routes else None
