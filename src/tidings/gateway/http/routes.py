"""The REST surface as a table: a `Route` has a path, a method, the forms of request and answer, and its callers.

A class of routes declares them on its methods, with `@route`. app.py serves the table and docs/openapi.py describes it,
so the two cannot differ. `Router` finds a route with one dict lookup per path segment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

import msgspec

from tidings.bounds import HTTP_BODY_BYTES_MAX
from tidings.errors import BadRequest, NotFound, Unauthorized
from tidings.gateway.auth import Caller
from tidings.ids import is_id, is_user_id
from tidings.messaging.limits.limiter import Limiter
from tidings.protocol.types import INTEGER_MAX

Access = Literal["user", "profile", "operator", "moderator", "server", "open"]
_DECLARED = "declared_routes"
NO_USER = "`X-User-Id` must name the user that the server acts for"


@dataclass(slots=True)
class Request:
    """The request of a route: decoded, validated, and from a known caller."""

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
            raise Unauthorized(NO_USER, reason="malformed")
        return self.caller.user_id

    def user(self, position: int = 0) -> str:
        """A path segment as a user id."""
        text = self.params[position]
        if not is_user_id(text):
            raise BadRequest(f"`{text[:40]}` in the path is not a user id")
        return text

    def subject(self) -> str:
        """The user whom the path names. A user reaches only themself: others do not exist. A server key reaches all.

        Raises NotFound."""
        user_id = self.user()
        if self.caller.role is None and self.caller.user_id != user_id:
            raise NotFound()
        return user_id

    def id(self, position: int = 0) -> str:
        """A path segment as the id of a conversation or node."""
        text = self.params[position]
        if not is_id(text):
            raise BadRequest(f"`{text[:40]}` in the path is not an id")
        return text

    def seq(self, position: int = 1) -> int:
        text = self.params[position]
        if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= INTEGER_MAX):
            raise BadRequest(f"`{text[:40]}` in the path is not a seq")
        return int(text)


class Chunks(msgspec.Struct, frozen=True):
    """A body that is sent as it is read, with its size. None: nobody knows the size before the end."""

    size: int | None
    read: AsyncGenerator[bytes, None]


class Reply(msgspec.Struct, frozen=True):
    """An answer. `body` is a struct, or encoded bytes of `content_type`. `headers` replace the usual ones."""

    status: int
    body: Any = None  # a Struct, bytes, Chunks or None
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def ids_of(text: str | None) -> list[str]:
    """The ids of `user_ids` in a query."""
    ids = text.split(",") if text else []
    if not all(is_user_id(id_) for id_ in ids):
        raise BadRequest("`user_ids` must be ids with commas between them")
    return ids


Operation = Callable[[Request], Awaitable[Reply]]
Method = TypeVar("Method", bound=Callable[..., Awaitable[Reply]])


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
    is_streamed: bool = False  # the body of the request is an iterator of chunks, of any size
    answer: type[msgspec.Struct] | None = None
    picked: type[msgspec.Struct] | None = None  # the answer to a query that names `fields`
    statuses: tuple[int, ...] = (200,)
    errors: tuple[str, ...] = ()
    is_send: bool = False  # it may use the room that is kept for sends
    is_admitted_first: bool = False  # a GET that runs only after the limiter has agreed, as other methods do
    server_body_bytes_max: int = HTTP_BODY_BYTES_MAX  # of a server key; a user has HTTP_BODY_BYTES_MAX everywhere

    @property
    def param_names(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


def route(method: str, path: str, access: Access = "user", **facts: Any) -> Callable[[Method], Method]:
    """Declare a method as the operation of a route. The first line of its docstring is the summary of the route.

    `facts` are the other fields of `Route`."""

    def declare(run: Method) -> Method:
        summary = (run.__doc__ or "").partition("\n")[0].removesuffix(".")
        assert summary, f"{method} {path} has no docstring"
        declared = {"method": method, "path": path, "summary": summary, "access": access, **facts}
        vars(run).setdefault(_DECLARED, []).insert(0, declared)
        return run

    return declare


class Routes:
    """The routes of one noun: every method with `@route`, in the order of the class."""

    def routes(self) -> list[Route]:
        return [
            Route(run=getattr(self, name), **declared)
            for name, member in vars(type(self)).items()
            for declared in getattr(member, _DECLARED, ())
        ]


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

    def find(self, raw_path: str) -> tuple[dict[str, Route], tuple[str, ...]] | None:
        """The routes of this path by method, and the values of its parameters.

        The path is as it came. A fixed segment that is percent-encoded is another segment, because a proxy in front
        compares the same bytes: `/%6detrics` must not pass a rule for `/metrics`. Parameters are decoded one by one."""
        node, params = self._root, []
        for part in raw_path.split("/")[1:]:
            following = node.named.get(part)
            if following is None:
                following = node.any
                params.append(unquote(part) if "%" in part else part)
            if following is None:
                return None
            node = following
        return (node.routes, tuple(params)) if node.routes else None


async def pay_create(limiter: Limiter, request: Request, slots: int = 1) -> None:
    """Take slots of class `create` from the user. The team's own server is trusted. Raises RateLimited."""
    if request.caller.role is None:
        await limiter.admit("create", request.user_id, slots)
