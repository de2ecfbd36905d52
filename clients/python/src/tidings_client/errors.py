"""Errors of the client: the refusals of the server, and three errors of the connection.

A `Problem` is a refusal; its code is one of docs/use/errors.md, and a test compares the list with the server's table.
`Disconnected`: the connection was lost before the answer arrived. `Stopped`: the server closed the connection for good.
`Lagging`: events arrived faster than the program took them.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Problem(Exception):
    """A refusal. `is_temporary` says whether the same request may succeed later."""

    code = "internal"
    status = 500
    is_temporary = True
    answer = b""  # the whole answer, over REST
    reason: str | None = None  # why a token is refused, where the server tells it

    def __init__(self, message: str = "", *, retry_after_ms: int | None = None) -> None:
        super().__init__(message or self.code)
        self.retry_after_ms = retry_after_ms


class BadRequest(Problem):
    code, status, is_temporary = "bad_request", 400, False


class BadCursor(Problem):
    code, status, is_temporary = "bad_cursor", 400, False


class Unauthorized(Problem):
    code, status, is_temporary = "unauthorized", 401, False


class Forbidden(Problem):
    code, status, is_temporary = "forbidden", 403, False


class NotFound(Problem):
    code, status, is_temporary = "not_found", 404, False


class IdConflict(Problem):
    code, status, is_temporary = "conflict", 409, False


class Held(Problem):
    code, status = "held", 409


class Gone(Problem):
    code, status, is_temporary = "gone", 410, False


class TooLarge(Problem):
    code, status, is_temporary = "too_large", 413, False


class RateLimited(Problem):
    code, status = "rate_limited", 429

    @property
    def class_name(self) -> str:
        """The limiter class whose budget is used up, as the message names it."""
        words = str(self).split()
        return words[1] if len(words) > 1 and words[0] == "the" else "send"


class Internal(Problem):
    code = "internal"


class StoreUnavailable(Problem):
    code, status = "unavailable", 503


class Unknown(Problem):
    """A refusal with a code that this client does not know. The server says whether it is temporary."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.code}: {refusal.message}", retry_after_ms=refusal.retry_after_ms)
        self.code = refusal.code
        self.is_temporary = refusal.temporary


class Refusal(msgspec.Struct, frozen=True):
    """The fields of an error: an `error` frame and the REST body both carry them."""

    code: str
    message: str = ""
    temporary: bool = False
    retry_after_ms: int | None = None
    reason: str | None = None  # of `unauthorized`, where the server tells it


PROBLEMS: dict[str, type[Problem]] = {
    kind.code: kind
    for kind in (
        BadRequest,
        BadCursor,
        Unauthorized,
        Forbidden,
        NotFound,
        IdConflict,
        Held,
        Gone,
        TooLarge,
        RateLimited,
        Internal,
        StoreUnavailable,
    )
}


def problem_of(refusal: Refusal) -> Problem:
    """Make the exception of a refusal."""
    kind = PROBLEMS.get(refusal.code)
    problem = Unknown(refusal) if kind is None else kind(refusal.message, retry_after_ms=refusal.retry_after_ms)
    problem.reason = refusal.reason
    return problem


# --- the connection -------------------------------------------------------------------------------


class Close(IntEnum):
    """Close codes that the client treats in its own way, and those that end it."""

    DRAINING = 4001
    SERVER_ERROR = 4004
    TOKEN_EXPIRED = 4005
    SLOW = 4008
    TOO_MANY_REQUESTS = 4013
    BAD_TOKEN = 4500
    BAD_FRAMES = 4501
    NO_CONNECT = 4502
    REVOKED = 4503
    TOO_MANY_CONNECTIONS = 4504
    REPLACED = 4505


STOP_REASONS: dict[int, str] = {
    Close.TOKEN_EXPIRED: "the token expired; refresh it, then reconnect",
    Close.BAD_TOKEN: "the token is not valid",
    Close.BAD_FRAMES: "repeated frames that are not of the documented form",
    Close.NO_CONNECT: "no connect frame in time",
    Close.REVOKED: "the tokens of this user were revoked",
    Close.TOO_MANY_CONNECTIONS: "too many connections of this user",
    Close.REPLACED: "the same device connected again",
}


class Disconnected(ConnectionError):
    """The connection was lost before the answer arrived: the outcome of the request is unknown."""


class Stopped(ConnectionError):
    """The server closed the connection, and another attempt would end the same way. `code` is the close code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code}: {STOP_REASONS.get(code, 'the server told the client to stop')}")
        self.code = code


class Lagging(RuntimeError):
    """More than EVENTS_MAX events wait in a stream. The history has the entries that the stream missed."""


def may_come_back(code: int | None) -> bool:
    """Read the range of a close code: 45xx means stop, any other code means reconnect."""
    return code is None or not 4500 <= code < 5000
