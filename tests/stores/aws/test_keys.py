from __future__ import annotations

import sys

import pytest

from tidings.clock import Clock
from tidings.stores.aws.credentials import KeyChain
from tidings.stores.aws.keys import open_any_keys

GIVEN = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.mark.parametrize("token", [None, "token"])
async def test_the_key_of_the_environment_needs_no_extra(monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    monkeypatch.setitem(sys.modules, "tidings.stores.aws.credentials", None)
    given = {**GIVEN, **({"AWS_SESSION_TOKEN": token} if token else {})}
    keys = open_any_keys("eu-west-1", Clock(), given)
    assert keys is not None
    key = await keys.key()
    assert (key.id, key.secret, key.token) == ("id", "secret", token)


def test_other_sources_are_those_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_any_keys("eu-west-1", Clock(), {}), KeyChain)


def test_without_the_extra_only_the_library_can_ask_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidings.stores.aws.credentials", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert open_any_keys("eu-west-1", Clock(), {}) is None
