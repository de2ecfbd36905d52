"""One REST request on httpx2: the answer as its struct, a refusal as its Problem.

A request that is safe to repeat is repeated after a lost connection and after a temporary refusal: reads, puts,
deletes, and sends, which carry their message_id. The creation of a group is not repeated: the group would exist twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import httpx2
import msgspec

from tidings_client.bounds import REST_S, TRIES_MAX
from tidings_client.clock import Clock
from tidings_client.connection.addresses import rest_url
from tidings_client.connection.session import Backoff
from tidings_client.errors import BadRequest, Disconnected, Problem, Refusal, Unauthorized, problem_of
from tidings_client.forms import body_of

T = TypeVar("T")
Headers = Callable[[], Awaitable[Mapping[str, str]]]


class Pool:
    """The HTTP connections to one node, opened on first use: reading the certificates of the system takes a while."""

    def __init__(self, url: str) -> None:
        self._url = rest_url(url)
        self._http: httpx2.AsyncClient | None = None
        self.is_closed = False

    def get(self) -> httpx2.AsyncClient:
        if self.is_closed:
            raise Disconnected("the client was closed")
        if self._http is None:
            self._http = httpx2.AsyncClient(base_url=self._url, timeout=REST_S)
        return self._http

    async def close(self) -> None:
        self.is_closed = True
        if self._http is not None:
            await self._http.aclose()


class _ErrorBody(msgspec.Struct):
    error: Refusal


class Rest:
    """`headers` identify the caller. `renew` is called once when the server refuses them."""

    def __init__(
        self, pool: Pool, headers: Headers, clock: Clock, renew: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self._pool = pool
        self._headers = headers
        self._clock = clock
        self._renew = renew

    async def close(self) -> None:
        await self._pool.close()

    def http(self) -> httpx2.AsyncClient:
        """The connections themselves, for requests that are no REST: the bytes of files."""
        return self._pool.get()

    def acting(self, user_id: str) -> Rest:
        """Make a Rest that acts for one user and shares the connections."""

        async def headers() -> Mapping[str, str]:
            return {**await self._headers(), "X-User-Id": user_id}

        return Rest(self._pool, headers, self._clock, self._renew)

    async def get(self, path: str, kind: type[T], **query: object) -> T:
        given = {name: str(value) for name, value in query.items() if value is not None}
        return await self.send("GET", path, kind, query=given, is_repeatable=True)

    async def send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: msgspec.Struct | None = None,
        *,
        query: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> T:
        backoff = Backoff(self._clock)
        content = None if body is None else body_of(body)
        tries, is_renewed = 1, False
        while True:
            try:
                return await self._once(method, path, kind, content, query)
            except Unauthorized:
                if self._renew is None or is_renewed:
                    raise
                is_renewed = True
                await self._renew()
            except (Problem, Disconnected) as error:
                is_temporary = isinstance(error, Disconnected) or error.is_temporary
                if not (is_temporary and is_repeatable) or tries >= TRIES_MAX or self._pool.is_closed:
                    raise
                tries += 1
                await asyncio.sleep(backoff.next_s(getattr(error, "retry_after_ms", None)))

    async def _once(
        self, method: str, path: str, kind: type[T], content: bytes | None, query: Mapping[str, str] | None
    ) -> T:
        try:
            answer = await self._pool.get().request(
                method,
                path,
                params=query,
                content=content,
                headers={**await self._headers(), "Content-Type": "application/json"},
            )
        except httpx2.TransportError as error:
            raise Disconnected(f"{method} {path}: {error or type(error).__name__}") from None
        except httpx2.InvalidURL as error:
            raise BadRequest(f"{method} {path}: {error}") from None
        if not answer.is_success:
            raise _refusal(answer)
        try:
            return msgspec.json.decode(answer.content or b"null", type=kind)
        except msgspec.DecodeError:
            raise _foreign(answer) from None


def _refusal(answer: httpx2.Response) -> Problem:
    try:
        problem = problem_of(msgspec.json.decode(answer.content, type=_ErrorBody).error)
    except msgspec.DecodeError:
        return _foreign(answer)
    problem.answer = answer.content
    return problem


def _foreign(answer: httpx2.Response) -> Problem:
    """Make the Problem of an answer that no node wrote: a proxy stands in between."""
    is_temporary = answer.status_code >= 500
    said = f"HTTP {answer.status_code} from something that is not a node"
    return problem_of(Refusal("unavailable" if is_temporary else "bad_request", said, is_temporary))
