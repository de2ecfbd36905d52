"""API keys: made, named and revoked, with what the audit says of it."""

from __future__ import annotations

from tidings.gateway.auth import hash_api_key
from tidings.gateway.http.operators.api_keys import ApiKeys
from tidings.node.graph import Core


def keys_of(core: Core) -> ApiKeys:
    limiting = core.limiting
    return ApiKeys(core.tables.accounts, limiting.overrides, limiting.audit, core.clock)


async def test_only_the_hash_of_a_key_is_stored(core: Core) -> None:
    key, made = await keys_of(core).create("backend", "readonly", "ops")
    assert made.key_hash == hash_api_key(key) and key not in repr(await keys_of(core).all())
    assert [(one.name, one.role) for one in await keys_of(core).named("backend")] == [("backend", "readonly")]


async def test_the_last_key_of_a_name_takes_its_exception_with_it(core: Core) -> None:
    keys = keys_of(core)
    _, first = await keys.create("backend", "admin", "ops")
    _, second = await keys.create("backend", "admin", "ops")
    await core.limiting.overrides.put("key", "backend", "http", count=5, window_s=60)
    assert not await keys.revoke(first, "ops")
    assert len(await core.limiting.overrides.all()) == 1
    assert await keys.revoke(second, "ops")
    assert (await keys.all(), await core.limiting.overrides.all()) == ([], [])
