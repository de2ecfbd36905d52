"""Overrides over REST: an admin key changes them, any server key sees them, a user gets nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.conftest import SECRET
from tests.gateway.test_refusals import Watched
from tests.gateway.wire import http
from tidings.bounds import LIMIT_COUNT_MAX, LIMIT_WINDOW_S_MAX
from tidings.clock import Clock
from tidings.gateway.auth import AuthSettings
from tidings.gateway.build import GatewaySettings
from tidings.gateway.usecases import UseCases
from tidings.messaging.limits import Limits
from tidings.messaging.overrides import Overrides
from tidings.model import Override

EVERY = "/v1/rate_limits/overrides"
ONE = EVERY + "/user/alice/send"


class Rows:
    """The port in memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], Override] = {}
        self.version = 0

    async def put_override(self, override: Override) -> None:
        self.rows[override.scope, override.name, override.class_name] = override
        self.version += 1

    async def remove_override(self, scope: str, name: str, class_name: str) -> bool:
        self.version += 1
        return self.rows.pop((scope, name, class_name), None) is not None

    async def overrides(self) -> list[Override]:
        return list(self.rows.values())

    async def overrides_version(self) -> str:
        return str(self.version)


class Limited(Watched):
    def __init__(self, settings: GatewaySettings) -> None:
        self.rows = Rows()
        super().__init__(settings)

    def cases(self) -> UseCases:
        cases = super().cases()
        parts = {name: getattr(cases, name) for name in cases.__dataclass_fields__}
        overrides = Overrides(self.rows, Limits({}), Clock(), lambda: None)
        return UseCases(**{**parts, "overrides": overrides})

    async def ask(self, method: str, path: str, body: Any = None, role: str = "admin") -> tuple[int, Any]:
        headers = {"X-Api-Key": await self.api_key(role)}
        status, _, answer = await http(self.port, method, path, body, headers)
        return status, answer


@pytest.fixture
async def gateway() -> Any:
    made = Limited(GatewaySettings(AuthSettings(secret=SECRET)))
    made.port = await made.server.start("127.0.0.1", 0)
    yield made
    await made.server.stop()


async def test_an_override_is_set_seen_and_taken_back(gateway: Limited) -> None:
    status, body = await gateway.ask("PUT", ONE, {"limit": 5, "window_s": 10})
    assert status == 200 and body.pop("changed_at") > 0
    assert body == {"scope": "user", "name": "alice", "class": "send", "limit": 5, "window_s": 10}
    for role in ("admin", "readonly"):
        status, seen = await gateway.ask("GET", EVERY, role=role)
        assert status == 200 and [one["name"] for one in seen["overrides"]] == ["alice"]
    assert (await gateway.ask("DELETE", ONE))[0] == 204
    assert (await gateway.ask("DELETE", ONE))[0] == 404
    assert await gateway.ask("GET", EVERY) == (200, {"overrides": []})


async def test_no_limit_and_nothing_passes(gateway: Limited) -> None:
    assert (await gateway.ask("PUT", ONE, {"limit": None}))[1]["limit"] is None
    assert (await gateway.ask("PUT", ONE, {"limit": 0}))[1]["limit"] == 0


async def test_every_change_is_audited_with_the_keys_name(gateway: Limited) -> None:
    await gateway.ask("PUT", ONE, {"limit": 5, "window_s": 10})
    await gateway.ask("PUT", EVERY + "/role/bot/read", {"limit": None})
    await gateway.ask("DELETE", ONE)
    assert gateway.kept.actions == [
        ("limits.set", "admin", "alice", "user alice send 5/10s"),
        ("limits.set", "admin", "-", "role bot read off"),
        ("limits.clear", "admin", "alice", "user alice send"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"limit": -1},
        {"limit": "5"},
        {"limit": 1.5},
        {"limit": LIMIT_COUNT_MAX + 1},
        {"limit": 5, "window_s": 0},
        {"limit": 5, "window_s": LIMIT_WINDOW_S_MAX + 1},
    ],
)
async def test_what_is_no_limit_is_refused(gateway: Limited, body: Any) -> None:
    assert (await gateway.ask("PUT", ONE, body))[0] == 400
    assert gateway.rows.rows == {} and gateway.kept.actions == []


@pytest.mark.parametrize("place", ["group/alice/send", "user/a%20b/send", "user/alice/sends", "key/backend/send"])
async def test_what_is_no_place_for_an_override_is_refused(gateway: Limited, place: str) -> None:
    assert (await gateway.ask("PUT", f"{EVERY}/{place}", {"limit": 5}))[0] == 400
    assert (await gateway.ask("DELETE", f"{EVERY}/{place}"))[0] == 400
    assert gateway.rows.rows == {}


async def test_a_user_and_a_readonly_key_change_nothing(gateway: Limited) -> None:
    await gateway.ask("PUT", ONE, {"limit": 5})
    for method, path, body in (("PUT", ONE, {"limit": 9}), ("DELETE", ONE, None)):
        assert (await gateway.rest(method, path, body))[0] == 403
        assert (await gateway.rest(method, path, body, X_User_Id="root"))[0] == 403
        assert (await gateway.ask(method, path, body, role="readonly"))[0] == 403
        assert (await http(gateway.port, method, path, body))[0] == 401
    assert (await gateway.rest("GET", EVERY))[0] == 403
    assert [one.count for one in gateway.rows.rows.values()] == [5]
    assert len(gateway.kept.actions) == 1


async def test_a_key_that_acts_for_nobody_sees_its_own_budgets(gateway: Limited) -> None:
    assert (await gateway.ask("GET", "/v1/rate_limits"))[0] == 200
