"""The routes of devices: what may be registered, what is refused, and that nobody reaches another's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.support.gateway.standins import Accounts, Kept, Limiter
from tests.support.servers.push_services import Browser
from tidings.clock import Clock
from tidings.config.settings import Auth, Push
from tidings.gateway.auth import Authenticator
from tidings.gateway.fairness import Owner, PerUser, Refusals
from tidings.gateway.http.app import HttpApp
from tidings.gateway.http.devices import DeviceRoutes
from tidings.gateway.http.docs.openapi import openapi_of
from tidings.gateway.tokens import Tokens, mint_token
from tidings.pushes import DeviceRemoved, Event
from tidings.stores.tables.ports import NO_COUNTS, Devices
from tidings.stores.tables.sqlite import adapter

AUTH = Auth(secret="a secret of the tests, long enough for HS256")
TOKEN = "ab" * 32
ENDPOINT = "https://updates.push.services.mozilla.com/wpush/v2/gAAAA"


class Page:
    """The app without a socket, on real tables."""

    def __init__(self, devices: Devices, providers: tuple[str, ...]) -> None:
        self.devices = devices
        self.pushed: list[tuple[str, Event]] = []
        hosts = Push().webpush_hosts
        routes = DeviceRoutes(
            devices, Clock(), self._push, providers=providers, webpush_hosts=hosts, vapid_public_key="BPub"
        ).routes()
        self.openapi = openapi_of(routes)
        auth = Authenticator(Tokens(AUTH, Clock()), cast(Any, Accounts()), Clock())
        limiter, kept = cast(Any, Limiter()), cast(Any, Kept())
        self._app = HttpApp(routes, auth, limiter, Clock(), frozenset(), Refusals(kept), kept)

    def _push(self, user_id: str, event: Event) -> None:
        self.pushed.append((user_id, event))

    async def ask(self, method: str, body: Any = None, query: str = "", user_id: str = "bob") -> tuple[int, Any]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"" if body is None else msgspec.json.encode(body)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        token = mint_token(AUTH, user_id, ttl_s=60, now_ms=Clock().now_ms())
        scope: dict[str, Any] = {"type": "http", "method": method, "query_string": query.encode()}
        scope |= {"path": "/v1/devices", "raw_path": b"/v1/devices", "state": {"owner": Owner(PerUser(1))}}
        await self._app(scope | {"headers": [(b"authorization", f"Bearer {token}".encode())]}, receive, send)
        raw = sent[1]["body"]
        return sent[0]["status"], msgspec.json.decode(raw) if raw else None


@pytest.fixture
async def devices(tmp_path: Path) -> AsyncIterator[Devices]:
    tables = await adapter.open(f"sqlite://{tmp_path / 't.db'}", NO_COUNTS, Clock())
    yield tables.devices
    await tables.close()


@pytest.fixture
def page(devices: Devices) -> Page:
    return Page(devices, ("apns", "fcm", "webpush"))


def subscription(endpoint: str = ENDPOINT) -> dict[str, Any]:
    """As a browser gives it, with a field that we do not need."""
    browser = Browser()
    return {"endpoint": endpoint, "expirationTime": None, "keys": {"p256dh": browser.p256dh, "auth": browser.auth}}


async def test_a_token_that_changes_hands_is_told_to_its_former_owner(page: Page) -> None:
    taken = {"device": "phone", "provider": "apns", "token": TOKEN}
    await page.ask("POST", taken, user_id="alice")
    await page.ask("POST", taken | {"device": "tablet"}, user_id="alice")
    assert page.pushed == []  # of the same user
    await page.ask("POST", taken)
    await page.ask("POST", taken)
    assert page.pushed == [("alice", DeviceRemoved("tablet"))]
    assert await page.devices.of_user("alice") == []


async def test_a_device_is_registered_listed_and_forgotten(page: Page) -> None:
    status, body = await page.ask("POST", {"device": "phone", "provider": "apns", "token": TOKEN})
    assert (status, body["device"], body["provider"]) == (200, "phone", "apns")
    [device] = await page.devices.of_user("bob")
    assert (device.token, device.registered_ms) == (TOKEN, body["registered_at"])
    status, body = await page.ask("GET")
    assert [one["device"] for one in body["devices"]] == ["phone"] and TOKEN not in str(body)
    assert body["providers"] == ["apns", "fcm", "webpush"] and body["vapid_public_key"] == "BPub"
    assert await page.ask("DELETE", query="device=phone") == (204, None)
    assert await page.devices.of_user("bob") == []


async def test_a_browser_registers_its_subscription_as_it_is(page: Page) -> None:
    given = subscription()
    status, _ = await page.ask("POST", {"device": "tab", "provider": "webpush", "subscription": given})
    [device] = await page.devices.of_user("bob")
    assert status == 200
    assert (device.token, device.p256dh, device.auth) == (ENDPOINT, given["keys"]["p256dh"], given["keys"]["auth"])


async def test_a_phone_that_changes_hands_is_the_new_owners_alone(page: Page) -> None:
    for user_id in ("bob", "carol"):
        await page.ask("POST", {"device": "phone", "provider": "apns", "token": TOKEN}, user_id=user_id)
    assert await page.devices.of_user("bob") == []
    assert len(await page.devices.of_user("carol")) == 1


async def test_nobody_forgets_the_device_of_another(page: Page) -> None:
    await page.ask("POST", {"device": "phone", "provider": "apns", "token": TOKEN}, user_id="carol")
    for query in ("device=phone", f"token={TOKEN}", "device=other"):
        status, body = await page.ask("DELETE", query=query)
        assert (status, body["error"]["code"]) == (404, "not_found")
    assert len(await page.devices.of_user("carol")) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"device": "phone", "provider": "apns"},
        {"device": "phone", "provider": "apns", "token": "../../3/device/" + TOKEN},
        {"device": "phone", "provider": "apns", "token": "short"},
        {"device": "phone", "provider": "fcm", "token": "with spaces in the token"},
        {"device": "phone", "provider": "sms", "token": TOKEN},
        {"device": "a:b", "provider": "apns", "token": TOKEN},
        {"provider": "apns", "token": TOKEN},
        {"device": "phone", "provider": "apns", "token": TOKEN, "subscription": subscription()},
        {"device": "tab", "provider": "webpush", "token": ENDPOINT},
        {"device": "tab", "provider": "webpush", "subscription": subscription("https://169.254.169.254/latest")},
        {"device": "tab", "provider": "webpush", "subscription": subscription("http://fcm.googleapis.com/x")},
        {"device": "tab", "provider": "webpush", "subscription": {"endpoint": ENDPOINT, "keys": {}}},
        {
            "device": "tab",
            "provider": "webpush",
            "subscription": {"endpoint": ENDPOINT, "keys": {"p256dh": "x", "auth": "y"}},
        },
    ],
)
async def test_what_cannot_be_a_device_is_refused(page: Page, body: Any) -> None:
    status, answer = await page.ask("POST", body)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert await page.devices.of_user("bob") == []


async def test_a_provider_that_is_not_set_up_is_refused_by_name(devices: Devices) -> None:
    status, answer = await Page(devices, ()).ask("POST", {"device": "phone", "provider": "fcm", "token": TOKEN})
    assert status == 400 and "fcm is not set up" in answer["error"]["message"]


async def test_forgetting_needs_a_name(page: Page) -> None:
    await page.ask("POST", {"device": "phone", "provider": "apns", "token": TOKEN})
    status, answer = await page.ask("DELETE")
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert len(await page.devices.of_user("bob")) == 1


def test_the_routes_are_documented(page: Page) -> None:
    operations = page.openapi["paths"]["/v1/devices"]
    assert sorted(operations) == ["delete", "get", "post"]
    assert [one["name"] for one in operations["delete"]["parameters"]] == ["device", "token"]
