from __future__ import annotations

from typing import Any, cast

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.support.clocks import AheadClock
from tests.support.gateway.served import SECRET
from tests.support.gateway.signing import sign
from tests.support.gateway.standins import Accounts
from tidings.config.settings import Auth
from tidings.errors import BadRequest, Forbidden, Unauthorized, Unavailable
from tidings.gateway.auth import (
    ACCOUNT_S,
    API_KEY_S,
    KEY_READS_BURST,
    KEY_READS_S,
    REASON_S,
    Authenticator,
    Remembered,
    hash_api_key,
)
from tidings.gateway.tokens import Identity, Tokens, mint_token, new_bot_key
from tidings.model import User
from tidings.stores.tables.values import ApiKey

AUTH = Auth(secret=SECRET)


class Setup:
    def __init__(self) -> None:
        self.clock = AheadClock()
        self.accounts = Accounts()
        tokens = Tokens(AUTH, self.clock)
        self.auth = Authenticator(tokens, cast(Any, self.accounts), self.clock)

    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def claims(self, **changes: Any) -> dict[str, Any]:
        given = {"sub": "alice", "iat": self.now_s(), "exp": self.now_s() + 60} | changes
        return {name: value for name, value in given.items() if value is not None}

    async def refuses(self, token: str) -> str:
        with pytest.raises(Unauthorized) as caught:
            await self.auth.identify(token)
        return str(caught.value)


async def test_a_good_token_names_its_user() -> None:
    at = Setup()
    token = sign({"alg": "HS256", "typ": "JWT"}, at.claims())
    identity = await at.auth.identify(token)
    assert identity == Identity("alice", (at.now_s() + 60) * 1000, at.now_s() * 1000)


async def test_our_own_tokens_are_good() -> None:
    at = Setup()
    token = mint_token(AUTH, "alice", ttl_s=60, now_ms=at.clock.now_ms())
    assert (await at.auth.identify(token)).user_id == "alice"


async def test_a_revocation_refuses_tokens_made_before_it() -> None:
    at = Setup()
    old = mint_token(AUTH, "alice", ttl_s=600, now_ms=at.clock.now_ms())
    await at.auth.identify(old)
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=at.clock.now_ms() + 1))
    at.auth.forget_user("alice")
    await at.refuses(old)
    at.clock.ahead_s += 0.01
    await at.auth.identify(mint_token(AUTH, "alice", ttl_s=600, now_ms=at.clock.now_ms()))


async def test_a_token_without_a_time_does_not_survive_a_revocation() -> None:
    at = Setup()
    token = sign({"alg": "HS256"}, at.claims(iat=None))
    await at.auth.identify(token)
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=1))
    at.auth.forget_user("alice")
    await at.refuses(token)


async def test_a_revocation_made_elsewhere_is_noticed_within_two_seconds() -> None:
    at = Setup()
    token = mint_token(AUTH, "alice", ttl_s=600, now_ms=at.clock.now_ms())
    await at.auth.identify(token)
    await at.auth.identify(token)
    assert at.accounts.user_reads == 1
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=at.clock.now_ms() + 1))
    at.clock.ahead_s += ACCOUNT_S + 0.1
    await at.refuses(token)


async def test_an_account_that_was_read_before_its_change_is_not_remembered() -> None:
    at = Setup()
    token = mint_token(AUTH, "alice", ttl_s=600, now_ms=at.clock.now_ms())
    read = at.accounts.user

    async def read_slowly(user_id: str) -> User | None:
        found = await read(user_id)
        await at.accounts.put_user(User(user_id="alice", tokens_valid_after=at.clock.now_ms() + 1))
        at.auth.forget_user("alice")
        return found

    at.accounts.user = read_slowly  # type: ignore[method-assign]
    await at.auth.identify(token)
    at.accounts.user = read  # type: ignore[method-assign]
    await at.refuses(token)


async def test_tables_that_do_not_answer_are_not_a_bad_token() -> None:
    at = Setup()
    at.accounts.error = Unavailable()
    with pytest.raises(Unavailable):
        await at.auth.identify(mint_token(AUTH, "alice", ttl_s=60, now_ms=at.clock.now_ms()))


async def test_a_server_key_acts_for_a_user_and_a_readonly_one_only_looks() -> None:
    at = Setup()
    for role in ("admin", "readonly"):
        key: Any = ApiKey(key_hash=hash_api_key(role), name=role, role=role, created_ms=0)
        await at.accounts.put_api_key(key)
    caller = await at.auth.caller("POST", None, "admin", "bob")
    assert (caller.user_id, caller.role, caller.budget_id) == ("bob", "admin", "bob")
    assert (await at.auth.caller("GET", None, "readonly", "bob")).role == "readonly"
    with pytest.raises(Forbidden):
        await at.auth.caller("POST", None, "readonly", "bob")
    for api_key, user_id in (("wrong", "bob"), ("", "bob"), ("wrong", "b{b")):
        with pytest.raises(Unauthorized):
            await at.auth.caller("GET", None, api_key, user_id)
    with pytest.raises(BadRequest):
        await at.auth.caller("GET", None, "admin", "b{b")
    assert (await at.auth.caller("GET", None, "admin", None)).budget_id.startswith("key-")


async def test_a_bot_key_signs_in_as_its_own_user_and_nobody_else() -> None:
    at = Setup()
    key = new_bot_key("helper", at.clock)
    made_ms = at.clock.now_ms()
    await at.accounts.put_api_key(ApiKey(key_hash=hash_api_key(key), name="bot", role="bot", created_ms=made_ms))
    identity = await at.auth.identify(key)
    assert (identity.user_id, identity.role) == ("helper", "bot")
    for caller in (
        await at.auth.caller("POST", key, None, None),
        await at.auth.caller("POST", None, key, None),
        await at.auth.caller("POST", None, key, "helper"),
    ):
        assert (caller.user_id, caller.role, caller.budget_id) == ("helper", None, "helper")
    with pytest.raises(Forbidden):
        await at.auth.caller("GET", None, key, "bob")
    secret = key.partition(".")[2]
    for forged in (
        new_bot_key("helper", at.clock),
        new_bot_key("alice", at.clock).partition(".")[0] + "." + secret,
        "tb_",
        "tb_!.x",
    ):
        await at.refuses(forged)
    await at.accounts.put_user(User(user_id="helper", tokens_valid_after=made_ms + 1))
    at.auth.forget_user("helper")
    await at.refuses(key)


async def test_an_admin_key_is_no_token() -> None:
    at = Setup()
    key = new_bot_key("helper", at.clock)
    await at.accounts.put_api_key(ApiKey(key_hash=hash_api_key(key), name="ops", role="admin", created_ms=0))
    await at.refuses(key)


async def test_a_server_key_that_was_removed_is_refused_once_it_is_forgotten() -> None:
    at = Setup()
    await at.accounts.put_api_key(ApiKey(key_hash=hash_api_key("key"), name="ops", role="admin", created_ms=0))
    await at.auth.caller("GET", None, "key", "bob")
    await at.accounts.remove_api_key(hash_api_key("key"))
    at.clock.ahead_s = API_KEY_S + 0.001
    with pytest.raises(Unauthorized):
        await at.auth.caller("GET", None, "key", "bob")


async def test_a_flood_of_wrong_server_keys_costs_few_reads_and_hides_no_good_key() -> None:
    at = Setup()
    await at.accounts.put_api_key(ApiKey(key_hash=hash_api_key("key"), name="ops", role="admin", created_ms=0))
    for number in range(10 * KEY_READS_BURST):
        with pytest.raises(Unauthorized):
            await at.auth.caller("GET", None, f"wrong{number}", None)
    assert at.accounts.key_reads == KEY_READS_BURST + 1
    assert (await at.auth.caller("GET", None, "key", "bob")).role == "admin"
    assert at.accounts.key_reads == KEY_READS_BURST + 1
    await at.accounts.put_api_key(ApiKey(key_hash=hash_api_key("new"), name="ops", role="admin", created_ms=0))
    at.clock.ahead_s += KEY_READS_S
    assert (await at.auth.caller("GET", None, "new", "bob")).role == "admin"


async def test_a_user_id_header_without_a_key_means_nothing() -> None:
    at = Setup()
    token = mint_token(AUTH, "alice", ttl_s=60, now_ms=at.clock.now_ms())
    assert (await at.auth.caller("GET", token, None, "bob")).user_id == "alice"
    with pytest.raises(Unauthorized):
        await at.auth.caller("GET", None, None, "bob")


def test_what_is_remembered_ages_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.gateway.auth.REMEMBERED_MAX", 3)
    clock = AheadClock()
    cache: Remembered[int] = Remembered(clock, 2.0)
    cache.put("a", 1)
    assert cache.get("a") == (1,)
    clock.ahead_s = 3
    assert cache.get("a") is None
    for n in range(10):
        cache.put(str(n), n)
    assert len(cache._values) <= 3


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"role": "bot"}, "bot"),
        ({}, None),
        ({"role": None}, None),
        ({"role": 7}, None),
        ({"role": "a{b}"}, None),
        ({"role": ["bot"]}, None),
        ({"tier": "gold"}, None),
    ],
)
async def test_a_role_is_what_the_token_names_and_a_strange_one_is_none(claims: Any, role: str | None) -> None:
    at = Setup()
    now_s = at.clock.now_ms() // 1000
    token = jwt.encode({"alg": "HS256"}, {"sub": "alice", "exp": now_s + 60, **claims}, OctKey.import_key(SECRET))
    assert (await at.auth.identify(token)).role == role
    assert (await at.auth.caller("GET", token, None, None)).user_role == role


async def test_every_refusal_is_the_same_answer_and_its_reason_is_in_the_log_once_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = Setup()
    caplog.set_level("INFO", "tidings.auth")
    expired, forged = sign({"alg": "HS256"}, at.claims(exp=1)), sign({"alg": "none"}, at.claims())
    answers = [await at.refuses(token) for token in (expired, forged, expired, forged)]
    assert set(answers) == {"No valid token or API key."}
    reasons = ["expired", "unknown_key"]
    assert [record.__dict__["reason"] for record in caplog.records] == reasons
    at.clock.ahead_s += REASON_S + 0.1
    await at.refuses(expired)
    assert [record.__dict__["reason"] for record in caplog.records] == [*reasons, "expired"]


async def test_a_reason_is_told_to_a_server_key_and_where_reasons_are_told() -> None:
    at = Setup()
    with pytest.raises(Unauthorized) as quiet:
        await at.auth.identify("nonsense")
    assert quiet.value.reason is None
    with pytest.raises(Unauthorized) as server:
        await at.auth.caller("GET", None, "no such key", None)
    assert server.value.reason == "unknown_key"
    telling = Authenticator(Tokens(AUTH, at.clock), cast(Any, at.accounts), at.clock, tells_reason=True)
    expired, old = sign({"alg": "HS256"}, at.claims(exp=at.now_s() - 5)), sign({"alg": "HS256"}, at.claims())
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=at.clock.now_ms() + 60_000))
    for token, reason in ((expired, "expired"), (old, "revoked"), ("nonsense", "malformed")):
        with pytest.raises(Unauthorized) as told:
            await telling.identify(token)
        assert told.value.reason == reason


async def test_the_log_has_the_reason_and_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "tidings.auth"):
        await Setup().refuses("nonsense")
    [record] = caplog.records
    assert record.__dict__["reason"] == "malformed" and record.__dict__["cause"]
