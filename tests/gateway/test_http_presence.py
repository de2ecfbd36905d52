"""GET /v1/presence: what is asked, what is answered, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.gateway.standins import Accounts, Limiter
from tidings.bounds import ID_CHARS_MAX
from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.gateway.auth import Auth, AuthSettings, mint_token
from tidings.gateway.http import HttpApp
from tidings.gateway.http_presence import PresenceRoutes
from tidings.gateway.openapi import openapi_of
from tidings.model import Presence

SECRET = "a secret of the tests, long enough for HS256"


class People:
    """Bob is online, carol is not; alice shares c1 with them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, list[str]]] = []

    async def presence(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]:
        self.asked.append((user_id, conversation_id, list(user_ids)))
        if conversation_id != "c1":
            raise NotFound("no such conversation")
        known = {"bob": Presence("bob", True, None), "carol": Presence("carol", False, 1794770399146)}
        return [known[id_] for id_ in user_ids or known]


class Page:
    """The app without a socket."""

    def __init__(self) -> None:
        self.people = People()
        routes = PresenceRoutes(self.people).routes()
        auth = Auth(AuthSettings(secret=SECRET), Accounts(), Clock())
        self._app = HttpApp(routes, auth, Limiter(), Clock(), frozenset())
        self._token = mint_token(SECRET, "alice", ttl_s=60, now_ms=Clock().now_ms())

    async def get(self, query: str) -> tuple[int, Any]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {self._token}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/v1/presence", "query_string": query.encode()}
        await self._app(scope | {"headers": headers}, receive, send)
        return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


async def test_presence_is_answered_in_the_order_asked() -> None:
    page = Page()
    status, body = await page.get("conversation_id=c1&user_ids=carol,bob")
    assert (status, page.people.asked) == (200, [("alice", "c1", ["carol", "bob"])])
    assert body == {
        "presence": [
            {"user_id": "carol", "online": False, "last_seen": 1794770399146},
            {"user_id": "bob", "online": True, "last_seen": None},
        ]
    }


@pytest.mark.parametrize("query", ["conversation_id=c1", "conversation_id=c1&user_ids="])
async def test_without_names_everyone_is_meant(query: str) -> None:
    page = Page()
    status, body = await page.get(query)
    assert (status, page.people.asked) == (200, [("alice", "c1", [])])
    assert [one["user_id"] for one in body["presence"]] == ["bob", "carol"]


async def test_a_conversation_of_others_does_not_exist() -> None:
    status, body = await Page().get("conversation_id=c2&user_ids=bob")
    assert (status, body["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "bad_request"),
        ("user_ids=bob", "bad_request"),
        ("conversation_id=a:b", "bad_request"),
        ("conversation_id=c1&user_ids=bob,,carol", "bad_request"),
        ("conversation_id=c1&user_ids=b%7Bob%7D", "bad_request"),
        (f"conversation_id=c1&user_ids={'a' * (ID_CHARS_MAX + 1)}", "bad_request"),
        (f"conversation_id=c1&user_ids={'a,' * 20_000}a", "too_large"),
    ],
)
async def test_a_query_that_is_not_of_the_documented_form_is_refused(query: str, code: str) -> None:
    page = Page()
    _, body = await page.get(query)
    assert (body["error"]["code"], page.people.asked) == (code, [])


def test_the_route_is_documented() -> None:
    operation = openapi_of(PresenceRoutes(People()).routes())["paths"]["/v1/presence"]["get"]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["conversation_id", "user_ids"]
    assert {"200", "400", "401", "404", "413", "429", "503"} <= set(operation["responses"])
