"""One REST request: the answer as its struct, a refusal as its Problem.

A request that is safe to repeat is repeated after a lost connection and after a temporary refusal: reads, puts,
deletes, and sends, which carry their message_id. The creation of a group is not repeated: the group would exist twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from tidings_client.bounds import REST_S, TRIES_MAX
from tidings_client.clock import Clock
from tidings_client.connection.http import Answer, Http
from tidings_client.connection.session import Backoff
from tidings_client.errors import Disconnected, Problem, Refusal, Unauthorized, problem_of
from tidings_client.forms import body_of

T = TypeVar("T")
Headers = Callable[[], Awaitable[Mapping[str, str]]]


class _ErrorBody(msgspec.Struct):
    error: Refusal


class Rest:
    """`headers` identify the caller. `renew` is called once when the server refuses them."""

    def __init__(
        self, http: Http, headers: Headers, clock: Clock, renew: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.http = http  # the bytes of files go over the same connections
        self._headers = headers
        self._clock = clock
        self._renew = renew

    async def close(self) -> None:
        await self.http.close()

    def acting(self, user_id: str) -> Rest:
        """Make a Rest that acts for one user and shares the connections."""

        async def headers() -> Mapping[str, str]:
            return {**await self._headers(), "X-User-Id": user_id}

        return Rest(self.http, headers, self._clock, self._renew)

    async def get(self, path: str, kind: type[T], **query: object) -> T:
        given = {name: str(value) for name, value in query.items() if value is not None}
        return await self.send("GET", path, kind, query=given, is_repeatable=True)

    async def send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: msgspec.Struct | bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
        quiet_s: float = REST_S,
    ) -> T:
        """`quiet_s` is the longest silence of the server: one that has much to do needs more of it."""
        backoff = Backoff(self._clock)
        content = body_of(body) if isinstance(body, msgspec.Struct) else body
        mime = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        tries, is_renewed = 1, False
        while True:
            try:
                return await self._once(method, path, kind, content, mime, query, quiet_s)
            except Unauthorized:
                if self._renew is None or is_renewed:
                    raise
                is_renewed = True
                await self._renew()
            except (Problem, Disconnected) as error:
                is_temporary = isinstance(error, Disconnected) or error.is_temporary
                if not (is_temporary and is_repeatable) or tries >= TRIES_MAX or self.http.is_closed:
                    raise
                tries += 1
                await asyncio.sleep(backoff.next_s(getattr(error, "retry_after_ms", None)))

    async def _once(
        self,
        method: str,
        path: str,
        kind: type[T],
        content: bytes | None,
        mime: str,
        query: Mapping[str, str] | None,
        quiet_s: float,
    ) -> T:
        headers = {**await self._headers(), "Content-Type": mime}
        try:
            answer = await self.http.request(
                method, path, headers=headers, query=query, content=content or b"", quiet_s=quiet_s
            )
        except Disconnected as error:
            raise Disconnected(f"{method} {path}: {error}") from None
        if not answer.is_success:
            raise _refusal(answer)
        try:
            return msgspec.json.decode(answer.content or b"null", type=kind)
        except msgspec.DecodeError:
            raise _foreign(answer) from None


def _refusal(answer: Answer) -> Problem:
    try:
        problem = problem_of(msgspec.json.decode(answer.content, type=_ErrorBody).error)
    except msgspec.DecodeError:
        return _foreign(answer)
    problem.answer = answer.content
    return problem


def _foreign(answer: Answer) -> Problem:
    """Make the Problem of an answer that no node wrote: a proxy stands in between."""
    is_temporary = answer.status >= 500
    said = f"HTTP {answer.status} from something that is not a node"
    return problem_of(Refusal("unavailable" if is_temporary else "bad_request", said, is_temporary))
