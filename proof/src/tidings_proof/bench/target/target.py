"""The server under test, seen from outside: where it is, who may talk to it, and which processes it is.

REST for what must be there before the clock runs: conversations, messages. `parts` is empty for a server on another
machine; then there is no CPU figure, and everything else is the same.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidings_proof.bench.load.people import ASK_S, People
from tidings_proof.bench.target.processes import Parts

CALL_S = 60.0
AT_ONCE = 8  # REST requests under way while a trial is prepared

T = TypeVar("T")
R = TypeVar("R")


class Refused(RuntimeError):
    """The server said no to something that a benchmark needs."""


def require_answer(url: str) -> None:
    """Before anything is prepared; raises ConnectionError."""
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=ASK_S):
            pass
    except urllib.error.HTTPError:
        pass  # what it refuses is told by whoever asks for more
    except (OSError, http.client.HTTPException):
        raise ConnectionError(f"nothing answers at {url}") from None


@dataclass(frozen=True)
class Target:
    url: str
    people: People
    parts: Parts = field(default_factory=dict)

    def token(self, user_id: str) -> str:
        return self.people.token(user_id)

    def call(self, method: str, path: str, body: Any = None, *, user_id: str) -> Any:
        """One REST request of a user; raises Refused with what the server said."""
        return json.loads(self._answer(method, path, body, user_id))

    def size_bytes(self, path: str, *, user_id: str) -> int:
        """The size of the answer to a GET, without its headers."""
        return len(self._answer("GET", path, None, user_id))

    def _answer(self, method: str, path: str, body: Any, user_id: str) -> bytes:
        headers = {**self.people.headers(user_id), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=CALL_S) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise Refused(f"{method} {path}: {error.code} {error.read(500).decode('utf-8', 'replace')}") from None

    def direct(self, one: str, other: str) -> str:
        """The conversation of two users."""
        body = {"kind": "direct", "members": [other]}
        return str(self.call("POST", "/v1/conversations", body, user_id=one)["conversation_id"])

    def together(self, kind: str, user_ids: list[str]) -> str:
        """A new group or channel, made by the first of them."""
        body = {"kind": kind, "name": "bench", "members": user_ids[1:]}
        return str(self.call("POST", "/v1/conversations", body, user_id=user_ids[0])["conversation_id"])

    def say(self, conversation_id: str, user_id: str, message_id: str, text: str) -> int:
        """One message over REST; its seq."""
        body = {"message_id": message_id, "text": text}
        path = f"/v1/conversations/{conversation_id}/messages"
        return int(self.call("POST", path, body, user_id=user_id)["seq"])

    def metric(self, name: str, **labels: str) -> float:
        """One series of /metrics; 0 when it is not there."""
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        series = re.escape(f"{name}{{{wanted}}}" if wanted else name)
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=CALL_S) as answer:
            found = re.search(rf"^{series} (\S+)$", answer.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0


def each(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The work for every item, a few at a time; the results in the items' order."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))
