"""HttpApp: REST as one ASGI callable. It finds the route, names the caller, asks the limiter, decodes, runs, encodes.

There is no middleware and no object per request beyond these steps, so a page of history costs little more than itself.
Errors have one form everywhere, made from errors.TABLE. The other modules of this folder hold the routes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from tidings.bounds import HTTP_BODY_BYTES_MAX, HTTP_CONNECTIONS_PER_USER_MAX, PAGES_PER_USER_MAX
from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, NotFound, Problem, RateLimited, TooLarge, Unauthorized
from tidings.gateway.auth import Authenticator, Caller
from tidings.gateway.dispatch import problem_of
from tidings.gateway.encode import reason_of
from tidings.gateway.fairness import Owner, PagesAtOnce, Refusals
from tidings.gateway.http.routes import NO_USER, Chunks, Reply, Request, Route, Router
from tidings.gateway.upgrade import is_origin_listed
from tidings.messaging.limits.limiter import Limiter
from tidings.operators.active_users import ActiveUsers
from tidings.protocol.bodies import ErrorBody, ErrorFacts, RequestBody
from tidings.protocol.client_frames import refusal_of

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

SECURITY_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cache-control", b"no-store"),
]
NOBODY = Caller(None, None, "")
HTTP_CONNECTIONS_RETRY_MS = 1_000  # an idle connection of the user may be gone by then
_EXPOSED = b"retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset"

_encode = msgspec.json.Encoder().encode


class HttpApp:
    def __init__(
        self,
        routes: Sequence[Route],
        auth: Authenticator,
        limiter: Limiter,
        clock: Clock,
        allowed_origins: frozenset[str],
        refusals: Refusals,
        activity: ActiveUsers,
    ) -> None:
        self._refusals = refusals
        self._pages = PagesAtOnce(PAGES_PER_USER_MAX)
        self._activity = activity
        self._router = Router(routes)
        self._auth = auth
        self._limiter = limiter
        self._clock = clock
        self._allowed_origins = allowed_origins
        assert all(route.body is None or issubclass(route.body, RequestBody) for route in routes), "bodies are strict"
        bodies = {route.body or RequestBody for route in routes}
        self._decoders = {body: msgspec.json.Decoder(body) for body in bodies}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        extra: Headers = []
        try:
            extra = self._cross_origin(scope["headers"])
            reply = await self._serve(scope, receive)
        except Exception as error:
            problem = problem_of(error, self._clock)
            reply = reply_of(problem)
            extra = extra + headers_of(problem)
        await _send(send, reply, extra, scope["state"]["owner"])

    async def _serve(self, scope: Scope, receive: Receive) -> Reply:
        method: str = scope["method"]
        found = self._router.find(scope["raw_path"].decode("ascii"))
        if found is None:
            raise NotFound("no route has this path: see /docs")
        routes, params = found
        if method == "OPTIONS":
            return Reply(204)
        route = routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise WrongMethod(sorted(routes))
        if route.access == "open":
            return await self._run(route, params, NOBODY, scope, receive)
        caller = await self._caller(method, scope["headers"])
        budget_id = self._payer(caller)
        try:
            self._take_connection(caller, scope)
            if route.is_send:
                await self._limiter.admit("http", budget_id)
                return await self._run(route, params, caller, scope, receive)
            user_id = budget_id if caller.role is None else None  # a server key acts for many users
            self._limiter.in_flight.begin("http", user_id)
            try:
                return await self._serve_counted(route, params, caller, budget_id, scope, receive)
            finally:
                self._limiter.in_flight.end(user_id)
        except RateLimited as problem:
            is_http = problem.class_name == "http"
            await self._refusals.answer_slowly(budget_id if is_http else caller.budget_id, problem)
            raise

    async def _serve_counted(
        self, route: Route, params: tuple[str, ...], caller: Caller, budget_id: str, scope: Scope, receive: Receive
    ) -> Reply:
        if route.method == "GET" and not route.is_admitted_first:
            turn = (
                self._pages.of(budget_id) if caller.role is None else nullcontext()
            )  # a server key asks for many users
            async with self._limiter.admitted("http", budget_id), turn:
                reply = await self._run(route, params, caller, scope, receive)
            return reply
        await self._limiter.admit("http", budget_id)
        return await self._run(route, params, caller, scope, receive)

    def _take_connection(self, caller: Caller, scope: Scope) -> None:
        """The connection belongs to this user now. A server key acts for many users, and is not counted."""
        if caller.role is None and not scope["state"]["owner"].become(caller.budget_id):
            raise RateLimited(
                f"you have {HTTP_CONNECTIONS_PER_USER_MAX} HTTP connections: use fewer, and read their answers",
                retry_after_ms=HTTP_CONNECTIONS_RETRY_MS,
                limit=HTTP_CONNECTIONS_PER_USER_MAX,
                class_name="http",
            )

    def _payer(self, caller: Caller) -> str:
        """The owner of the budget that the request is counted on. The limiter and the activity learn of the caller."""
        if caller.key_name is not None and caller.role is not None:
            return self._limiter.payer(caller.key_id, caller.key_name, caller.role, caller.user_id)
        self._limiter.know(caller.budget_id, caller.user_role)
        self._activity.note(caller.budget_id)
        return caller.budget_id

    async def _run(
        self, route: Route, params: tuple[str, ...], caller: Caller, scope: Scope, receive: Receive
    ) -> Reply:
        is_refused = caller.role is None if route.access == "operator" else caller.role != "admin"
        if route.access in ("operator", "server") and is_refused:
            self._refusals.sign_in_failed("operator")
            raise Forbidden("this needs an API key; changes need an admin key")
        if (caller.role == "moderator") != (route.access == "moderator") and caller.role != "admin":
            self._refusals.sign_in_failed("operator")
            raise Forbidden("this needs another API key")
        if route.access == "user" and caller.user_id is None:
            raise self._auth.refused("no X-User-Id", "malformed", is_server=True, message=NO_USER)
        query = decode_query(route.query, scope["query_string"])
        headers: Headers = scope["headers"]
        owner: Owner = scope["state"]["owner"]
        body = (
            owner.streaming(chunks_of(receive))
            if route.is_streamed
            else await self._body(route, caller, headers, receive)
        )
        client = scope.get("client")
        request = Request(scope["method"], params, caller, query, body, client[0] if client else None, headers)
        return await route.run(request)

    async def _caller(self, method: str, headers: Headers) -> Caller:
        bearer = api_key = user_id = None
        for name, value in headers:
            if name == b"authorization":
                bearer = bearer_of(value)
            elif name == b"x-api-key":
                api_key = value.decode("latin-1")
            elif name == b"x-user-id":
                user_id = value.decode("latin-1")
        try:
            return await self._auth.caller(method, bearer, api_key, user_id)
        except (Unauthorized, Forbidden) as problem:
            self._refusals.sign_in_failed("http" if isinstance(problem, Unauthorized) else "operator")
            raise

    async def _body(self, route: Route, caller: Caller, headers: Headers, receive: Receive) -> Any:
        if route.method == "GET":
            return None
        body = route.body or RequestBody  # a route without a body takes an empty one, and swallows no field
        most = HTTP_BODY_BYTES_MAX if caller.role is None else route.server_body_bytes_max
        raw = await read_body(headers, receive, most)
        if not raw and (route.is_body_optional or route.body is None):
            return body()
        try:
            return self._decoders[body].decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
            raise refusal_of(problem) from None

    def _cross_origin(self, headers: Headers) -> Headers:
        """Pages of the listed origins may call. They carry their token themselves; cookies are never read."""
        if not self._allowed_origins:
            return []
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is None or not is_origin_listed(origin, self._allowed_origins):
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"origin"),
        ]


class WrongMethod(BadRequest):
    """The path exists, but not with this method."""

    def __init__(self, methods: list[str]) -> None:
        super().__init__("this path allows only " + ", ".join(methods))
        self.methods = methods

    @property
    def status(self) -> int:
        return 405


def bearer_of(value: bytes) -> str | None:
    scheme, _, token = value.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" and token else None


def decode_query(kind: type[msgspec.Struct] | None, raw: bytes) -> Any:
    """The query as the route's struct. A parameter without a value counts as absent."""
    if kind is None:
        return None
    if not raw:
        return kind()
    try:
        return msgspec.convert(
            dict(parse_qsl(raw.decode("ascii"), errors="strict", max_num_fields=20)), kind, strict=False
        )
    except msgspec.ValidationError as problem:
        raise refusal_of(problem) from None
    except ValueError:
        raise BadRequest("the query is not of the form name=value&name=value") from None


async def read_body(headers: Headers, receive: Receive, most: int = HTTP_BODY_BYTES_MAX) -> bytes:
    """The whole body. Raises TooLarge as soon as the size is known to be over the bound."""
    for name, value in headers:
        if name == b"content-length" and (len(value) > 12 or int(value) > most):
            raise TooLarge(f"a body has {most} bytes at most")
    raw = bytearray()
    while True:
        message = await receive()
        raw += message.get("body", b"")
        if len(raw) > most:
            raise TooLarge(f"a body has {most} bytes at most")
        if not message.get("more_body", False):
            break
    if message["type"] == "http.disconnect":
        raise BadRequest("the client left")
    return bytes(raw)


async def chunks_of(receive: Receive) -> AsyncIterator[bytes]:
    """The body, as it comes. The reader bounds it. Raises BadRequest when the client leaves in the middle."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("the client left")
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


def reply_of(problem: Problem) -> Reply:
    facts = ErrorFacts(problem.code, str(problem), problem.is_temporary, problem.retry_after_ms, reason_of(problem))
    return Reply(problem.status, ErrorBody(facts))


def headers_of(problem: Problem) -> Headers:
    if isinstance(problem, WrongMethod):
        return [(b"allow", ", ".join(problem.methods).encode())]
    if isinstance(problem, TooLarge):
        return [(b"connection", b"close")]  # the rest of the body is not read
    if isinstance(problem, Unauthorized):
        return [(b"www-authenticate", b"Bearer")]
    if problem.retry_after_ms is None:
        return []
    wait_s = b"%d" % -(-problem.retry_after_ms // 1000)
    headers = [(b"retry-after", wait_s)]
    if isinstance(problem, RateLimited):
        headers += [
            (b"x-ratelimit-limit", b"%d" % problem.limit),
            (b"x-ratelimit-remaining", b"0"),
            (b"x-ratelimit-reset", wait_s),
        ]
    return headers


async def _send(send: Send, reply: Reply, extra: Headers, owner: Owner) -> None:
    body = reply.body
    if isinstance(body, Chunks):
        await _send_chunks(send, reply, body, extra, owner)
        return
    raw = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
    headers = _headers(reply, extra)
    if reply.status not in (204, 304):
        headers += [(b"content-type", reply.content_type), (b"content-length", b"%d" % len(raw))]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": raw})


async def _send_chunks(send: Send, reply: Reply, body: Chunks, extra: Headers, owner: Owner) -> None:
    """Send a chunk when the client has read most of those before. A client that leaves ends it."""
    own = [(b"content-type", reply.content_type)]
    if body.size is not None:
        own.append((b"content-length", b"%d" % body.size))
    await send({"type": "http.response.start", "status": reply.status, "headers": _headers(reply, extra) + own})
    async with aclosing(body.read) as chunks:
        async for chunk in chunks:
            if owner.is_gone:
                return
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _headers(reply: Reply, extra: Headers) -> Headers:
    headers = [*SECURITY_HEADERS, *extra]
    if not reply.headers:
        return headers
    own = {name for name, _ in reply.headers}
    return [header for header in headers if header[0] not in own] + list(reply.headers)
