"""How a program is told no: the server's refusals as the exceptions of errors.py, and three of the connection.

A `Problem` has the code of docs/errors.md. `Disconnected`: the answer did not come before the connection went.
`Stopped`: the server closed the connection for good. `Lagging`: events came faster than the program took them.
"""

from __future__ import annotations

import msgspec

from tidings import errors
from tidings.errors import CLOSE_MEANING, TABLE, Close, Problem, RateLimited

_PROBLEMS: dict[str, type[Problem]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Problem) and kind is not Problem
}


class Disconnected(ConnectionError):
    """The connection went before the answer came: what was asked may or may not have happened."""


class Stopped(ConnectionError):
    """The server closed the connection and another try would end the same way. `code` is its close code."""

    def __init__(self, code: int) -> None:
        meaning = CLOSE_MEANING[Close(code)] if code in set(Close) else "the server said stop"
        super().__init__(f"{code}: {meaning}")
        self.code = code


class Lagging(RuntimeError):
    """More events wait than CLIENT_EVENTS_MAX. What was missed is in the history."""


class Refusal(msgspec.Struct, frozen=True):
    """The facts of an error, as an `error` frame and the REST body both carry them."""

    code: str
    message: str = ""
    temporary: bool = False
    retry_after_ms: int | None = None


class Unknown(Problem):
    """A code that this client is too old to know; the server says itself whether it is temporary."""

    def __init__(self, facts: Refusal) -> None:
        super().__init__(f"{facts.code}: {facts.message}", retry_after_ms=facts.retry_after_ms)
        self.code = facts.code
        self._is_temporary = facts.temporary

    @property
    def is_temporary(self) -> bool:
        return self._is_temporary

    @property
    def status(self) -> int:
        return TABLE["internal"].status


def problem_of(facts: Refusal) -> Problem:
    """The exception for it."""
    kind = _PROBLEMS.get(facts.code)
    if kind is None:
        return Unknown(facts)
    if kind is RateLimited:
        words = facts.message.split()
        class_name = words[1] if len(words) > 1 and words[0] == "the" else "send"
        return RateLimited(retry_after_ms=facts.retry_after_ms or 0, class_name=class_name)
    return kind(facts.message, retry_after_ms=facts.retry_after_ms)


def may_come_back(code: int | None) -> bool:
    """The table of close codes: 45xx stops, anything else comes back."""
    return code is None or not 4500 <= code < 5000
