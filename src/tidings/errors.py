"""Every way to say no, in one table.

A `Problem` is the client's mistake or the moment's trouble: it has a code of the protocol, and the table says whether
trying again may help and which HTTP status it is. A `StoreError` is the world's: adapters raise these four and nothing
else. `cause_of` turns an error into the fields of a log line. `Close` lists why a socket is closed; the number's range
tells the client to come back (40xx) or to stop (45xx). No other module formats an error.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple


class Rule(NamedTuple):
    """Rule: the meaning of one error code for a client."""

    status: int
    is_temporary: bool
    meaning: str


TABLE: dict[str, Rule] = {
    "bad_request": Rule(400, False, "The request is not of the documented form."),
    "bad_cursor": Rule(400, False, "The cursor was not made by this endpoint for this caller."),
    "unauthorized": Rule(401, False, "No valid token or API key."),
    "forbidden": Rule(403, False, "A member, but not one who may do this."),
    "not_found": Rule(404, False, "It does not exist, or it is not yours: the answer is the same."),
    "conflict": Rule(409, False, "This message_id was used for another text."),
    "held": Rule(409, True, "An earlier send of this device waits to be sent again; resend in order."),
    "gone": Rule(410, False, "It was there, and is used up or over."),
    "too_large": Rule(413, False, "Above a documented limit; nothing was changed."),
    "rate_limited": Rule(429, True, "The budget of this class is used up until retry_after_ms."),
    "internal": Rule(500, True, "Our mistake; safe to try again with the same message_id."),
    "unavailable": Rule(503, True, "A store does not answer now; safe to try again."),
}


class Problem(Exception):
    """An answer that refuses; `code` is a row of TABLE."""

    code = "internal"

    def __init__(self, message: str = "", *, retry_after_ms: int | None = None) -> None:
        super().__init__(message or TABLE[self.code].meaning)
        self.retry_after_ms = retry_after_ms

    @property
    def is_temporary(self) -> bool:
        return TABLE[self.code].is_temporary

    @property
    def status(self) -> int:
        return TABLE[self.code].status


class BadRequest(Problem):
    code = "bad_request"


class BadCursor(Problem):
    code = "bad_cursor"


Reason = Literal["expired", "signature", "claims", "revoked", "unknown_key", "malformed"]


class Unauthorized(Problem):
    """`reason` is set where the caller may know it: a server key, or anybody with --dev."""

    code = "unauthorized"

    def __init__(self, message: str = "", *, retry_after_ms: int | None = None, reason: Reason | None = None) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)
        self.reason = reason


class Forbidden(Problem):
    code = "forbidden"


class LastOwner(Forbidden):
    """The change would leave a conversation without an owner."""


class NotFound(Problem):
    code = "not_found"


class IdConflict(Problem):
    code = "conflict"


class Held(Problem):
    code = "held"


class Gone(Problem):
    code = "gone"


class TooLarge(Problem):
    code = "too_large"


class RateLimited(Problem):
    """Refused by a limiter class; the fields are the `X-RateLimit-*` headers."""

    code = "rate_limited"

    def __init__(self, message: str = "", *, retry_after_ms: int, limit: int = 0, class_name: str = "send") -> None:
        super().__init__(message or f"the {class_name} budget is used up", retry_after_ms=retry_after_ms)
        self.limit = limit
        self.class_name = class_name


class Internal(Problem):
    code = "internal"


class StoreUnavailable(Problem):
    code = "unavailable"


class StoreError(Exception):
    """A store failed. `store` and `op` name the store and the operation; the adapter sets both where it knows them."""

    def __init__(self, message: str = "", *, store: str = "", op: str = "") -> None:
        super().__init__(message)
        self.store = store
        self.op = op

    def locate(self, store: str, op: str) -> None:
        """Name the store and the operation, unless the place that made the error already did."""
        self.store = self.store or store
        self.op = self.op or op


class Missing(StoreError):
    """The row or object does not exist."""


class Conflict(StoreError):
    """A condition did not hold: somebody else was first."""


class Throttled(StoreError):
    """The store asks for fewer requests; nothing was written."""


class Unavailable(StoreError):
    """The store did not answer. `is_ambiguous`: the operation may or may not have happened."""

    def __init__(self, message: str = "", *, is_ambiguous: bool = False, store: str = "", op: str = "") -> None:
        super().__init__(message, store=store, op=op)
        self.is_ambiguous = is_ambiguous


def cause_of(error: BaseException, **fields: object) -> dict[str, object]:
    """The fields of a log line about an error: its kind, the store, the operation and the reason, plus `fields`.

    Use it as `log.warning("store unavailable", extra=cause_of(error))`. A store error that was raised from another one
    takes the store and the operation of that one.
    """
    first: BaseException | None = error
    while first is not None and not (isinstance(first, StoreError) and first.store):
        first = first.__cause__
    located = {"store": first.store, "op": first.op} if isinstance(first, StoreError) else {}
    return {**fields, "error": type(error).__name__, **located, "cause": str(error) or type(error).__name__}


class Close(IntEnum):
    """Why a socket is closed. 40xx: come back. 45xx: stop."""

    TOO_BIG = 1009
    DRAINING = 4001
    SERVER_ERROR = 4004
    TOKEN_EXPIRED = 4005
    SLOW = 4008
    NO_PONG = 4012
    TOO_MANY_REQUESTS = 4013
    KICKED = 4014
    BAD_TOKEN = 4500
    BAD_FRAMES = 4501
    NO_CONNECT = 4502
    REVOKED = 4503
    TOO_MANY_CONNECTIONS = 4504
    REPLACED = 4505


CLOSE_MEANING: dict[Close, str] = {
    Close.TOO_BIG: "a frame over 64 KiB",
    Close.DRAINING: "the node is going away; reconnect after reconnect_in_ms",
    Close.SERVER_ERROR: "the connect could not be served now",
    Close.TOKEN_EXPIRED: "the token expired; refresh it, then reconnect",
    Close.SLOW: "the reader is too slow; reconnect and resume",
    Close.NO_PONG: "nothing was heard from the client in time",
    Close.TOO_MANY_REQUESTS: "far too many frames; reconnect later",
    Close.KICKED: "an operator closed the connection; reconnect and resume",
    Close.BAD_TOKEN: "the token is not valid",
    Close.BAD_FRAMES: "repeated frames that are not of the documented form",
    Close.NO_CONNECT: "no connect frame in time",
    Close.REVOKED: "the tokens of this user were revoked",
    Close.TOO_MANY_CONNECTIONS: "too many connections of this user",
    Close.REPLACED: "the same device connected again",
}
