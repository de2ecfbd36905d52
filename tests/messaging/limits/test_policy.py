"""Which limit holds for whom."""

from __future__ import annotations

from typing import Any

import pytest

from tidings import bounds
from tidings.bounds import Limit
from tidings.messaging.limits import policy as module
from tidings.messaging.limits.policy import Limits
from tidings.stores.tables.values import Override

DEFAULTS: dict[str, Limit | None] = {"send": Limit(100, 60), "read": None, "http": Limit(6_000, 60)}


def made(*overrides: tuple[Any, str, str, int | None]) -> Limits:
    limits = Limits(DEFAULTS)
    limits.install(
        Override(scope=scope, name=name, class_name=class_name, count=count, window_s=10)
        for scope, name, class_name, count in overrides
    )
    return limits


def test_without_an_override_the_setting_holds() -> None:
    limits = made(("user", "bob", "send", 5), ("role", "bot", "send", 7))
    assert limits.of("send", "alice") == Limit(100, 60)
    assert limits.of("read", "bob") is None
    assert limits.of("http", "bob") == Limit(6_000, 60)


def test_a_users_own_override_counts_before_that_of_the_role() -> None:
    limits = made(("user", "bob", "send", 5), ("role", "bot", "send", 7), ("role", "bot", "read", 9))
    limits.know("bob", "bot")
    limits.know("alice", "bot")
    assert limits.of("send", "bob") == Limit(5, 10)
    assert limits.of("read", "bob") == Limit(9, 10)
    assert limits.of("send", "alice") == Limit(7, 10)


def test_an_override_may_take_a_limit_away_or_let_nothing_pass() -> None:
    limits = made(("user", "bob", "send", None), ("user", "eve", "send", 0))
    assert limits.of("send", "bob") is None
    assert limits.of("send", "eve") == Limit(0, 10)


def test_a_role_is_that_of_the_last_token() -> None:
    limits = made(("role", "bot", "send", 7))
    for role, count in (("bot", 7), ("other", 100), ("bot", 7), (None, 100)):
        limits.know("alice", role)
        limit = limits.of("send", "alice")
        assert limit is not None and limit.count == count


def test_overrides_that_were_taken_back_are_forgotten() -> None:
    limits = made(("user", "bob", "send", 5))
    limits.install(())
    assert limits.of("send", "bob") == Limit(100, 60)


def test_a_request_for_a_user_is_on_the_users_budget_unless_the_key_has_its_own() -> None:
    limits = made(("key", "backend", "http", 50), ("role", "readonly", "http", 3))
    assert limits.payer("key-1", "cron", "admin", "alice") == "alice"
    assert limits.payer("key-1", "cron", "admin", None) == "key-1"
    assert limits.payer("key-2", "backend", "admin", "alice") == "key-2"
    assert limits.payer("key-3", "viewer", "readonly", None) == "key-3"
    assert [limits.of("http", id_) for id_ in ("key-1", "key-2", "key-3")] == [
        Limit(6_000, 60),
        Limit(50, 10),
        Limit(3, 10),
    ]
    assert list(limits.classes_of("key-2")) == ["http"]
    assert list(limits.classes_of("alice")) == list(DEFAULTS)


def test_a_users_override_is_not_that_of_a_key_of_the_same_name() -> None:
    limits = made(("user", "backend", "http", 50))
    limits.payer("key-2", "backend", "admin", None)
    assert limits.of("http", "key-2") == Limit(6_000, 60)


def test_the_memory_of_roles_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROLES_KNOWN_MAX", 3)
    limits = made(("role", "bot", "send", 7))
    for name in ("a", "b", "c", "d"):
        limits.know(name, "bot")
    assert len(limits._roles) == 3 and bounds.ROLES_KNOWN_MAX > 100_000
    assert limits.of("send", "a") == Limit(100, 60) and limits.of("send", "d") == Limit(7, 10)
