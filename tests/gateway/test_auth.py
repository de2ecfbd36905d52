from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tests.gateway.conftest import SECRET, TestClock
from tests.gateway.standins import Accounts
from tidings.errors import BadRequest, Forbidden, StoreUnavailable, Unauthorized, Unavailable
from tidings.gateway.auth import (
    ACCOUNT_S,
    API_KEY_S,
    Auth,
    AuthSettings,
    Identity,
    Remembered,
    hash_api_key,
    mint_token,
)
from tidings.model import ApiKey, User


class Setup:
    def __init__(self, **settings: Any) -> None:
        self.clock = TestClock()
        self.accounts = Accounts()
        keys = settings.pop("keys", None)
        source: Any = FixedKeys(keys) if keys else None
        accounts: Any = self.accounts
        self.auth = Auth(AuthSettings(**{"secret": SECRET} | settings), accounts, self.clock, source)

    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def claims(self, **changes: Any) -> dict[str, Any]:
        given = {"sub": "alice", "iat": self.now_s(), "exp": self.now_s() + 60} | changes
        return {name: value for name, value in given.items() if value is not None}

    async def refuses(self, token: str) -> str:
        with pytest.raises(Unauthorized) as caught:
            await self.auth.identify(token)
        return str(caught.value)


class FixedKeys:
    def __init__(self, keys: dict[str | None, Any]) -> None:
        self.keys = keys
        self.asked: list[str | None] = []

    async def key_for(self, kid: str | None, algorithm: str) -> Any:
        self.asked.append(kid)
        return self.keys.get(kid)

    async def close(self) -> None:
        pass


def sign(header: dict[str, Any], claims: Any, secret: bytes = SECRET.encode()) -> str:
    """An HS256 signature over any header and claims, however odd."""

    def b64(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = b64(json.dumps(header).encode()) + b"." + b64(json.dumps(claims).encode())
    return (signed + b"." + b64(hmac.new(secret, signed, hashlib.sha256).digest())).decode()


async def test_a_good_token_names_its_user() -> None:
    at = Setup()
    token = sign({"alg": "HS256", "typ": "JWT"}, at.claims())
    identity = await at.auth.identify(token)
    assert identity == Identity("alice", (at.now_s() + 60) * 1000, at.now_s() * 1000)


async def test_our_own_tokens_are_good() -> None:
    at = Setup()
    token = mint_token(SECRET, "alice", ttl_s=60, now_ms=at.clock.now_ms())
    assert (await at.auth.identify(token)).user_id == "alice"


def badly_made(good: dict[str, Any]) -> list[str]:
    """Not a token, not signed by us, or a header that says how to check it."""
    hs256 = {"alg": "HS256"}
    return [
        "",
        "x",
        "a.b.c",
        "." * 3,
        "x" * 100_000,
        "é.é.é",
        sign(hs256, good)[:-3] + "AAA",
        sign(hs256, good, b"another secret, which is long as well"),
        sign({"alg": "none"}, good).rsplit(".", 1)[0] + ".",
        sign({"alg": "none"}, good),
        sign({"alg": "HS384"}, good),
        sign({"alg": ["HS256"]}, good),
        sign({}, good),
        sign(hs256 | {"kid": "../../dev/null"}, good),
        sign(hs256 | {"kid": "https://evil.example/key"}, good),
        sign(hs256 | {"kid": "' OR 1=1 --"}, good),
        sign(hs256 | {"kid": 5}, good),
        sign(hs256 | {"jku": "https://evil.example/jwks"}, good),
        sign(hs256 | {"x5u": "https://evil.example/x"}, good),
        sign(hs256 | {"jwk": {"kty": "oct", "k": "AAAA"}}, good),
        sign(hs256 | {"crit": ["x"], "x": 1}, good),
        sign(hs256 | {"crit": []}, good),
        sign(hs256 | {"typ": "secevent+jwt"}, good),
        sign(hs256 | {"typ": 5}, good),
    ]


def badly_claimed(good: dict[str, Any], now_s: int) -> list[str]:
    """Signed by us, but not for this user, time, issuer or audience."""
    hs256 = {"alg": "HS256"}
    return [
        sign(hs256, good | {"exp": now_s - 1}),
        sign(hs256, good | {"exp": None}),
        sign(hs256, {name: value for name, value in good.items() if name != "exp"}),
        sign(hs256, good | {"exp": str(now_s + 60)}),
        sign(hs256, good | {"exp": True}),
        sign(hs256, good | {"exp": 1e308}),
        sign(hs256, good | {"exp": -5}),
        sign(hs256, good | {"nbf": now_s + 300}),
        sign(hs256, good | {"iat": now_s + 300}),
        sign(hs256, good | {"iss": "them"}),
        sign(hs256, {name: value for name, value in good.items() if name != "iss"}),
        sign(hs256, good | {"aud": "mail"}),
        sign(hs256, good | {"aud": None}),
        sign(hs256, good | {"sub": "a{b}"}),
        sign(hs256, good | {"sub": ""}),
        sign(hs256, good | {"sub": "x" * 10_240}),
        sign(hs256, good | {"sub": 5}),
        sign(hs256, [good]),
    ]


async def test_every_bad_token_gets_the_same_answer() -> None:
    at = Setup(issuer="us", audience="chat")
    good = at.claims(iss="us", aud=["chat", "else"])
    assert (await at.auth.identify(sign({"alg": "HS256"}, good))).user_id == "alice"
    bad = [*badly_made(good), *badly_claimed(good, at.now_s())]
    answers = {await at.refuses(token) for token in bad}
    assert len(answers) == 1


async def test_clocks_may_differ_by_a_minute_but_an_expired_token_is_expired() -> None:
    at = Setup()
    now_s = at.now_s()
    await at.auth.identify(sign({"alg": "HS256"}, at.claims(nbf=now_s + 50, iat=now_s + 50)))
    token = sign({"alg": "HS256"}, at.claims(exp=now_s + 2))
    await at.auth.identify(token)
    at.clock.ahead_s = 3
    await at.refuses(token)


async def test_a_public_key_is_never_taken_for_a_secret() -> None:
    key = RSAKey.generate_key(2048, {"kid": "r1"})
    at = Setup(secret=None, jwks_url="https://issuer.example/jwks", keys={"r1": key, None: key})
    pem = key.as_pem(private=False)
    await at.refuses(sign({"alg": "HS256", "kid": "r1"}, at.claims(), pem))
    token = jwt.encode({"alg": "RS256", "kid": "r1"}, at.claims(), key, algorithms=["RS256"])
    assert (await at.auth.identify(token)).user_id == "alice"


async def test_only_three_asymmetric_algorithms_are_known() -> None:
    key, ec = RSAKey.generate_key(2048), ECKey.generate_key("P-256")
    at = Setup(secret=None, jwks_url="https://issuer.example/jwks", keys={"r": key, "e": ec})
    for algorithm in ("RS384", "PS256"):
        await at.refuses(jwt.encode({"alg": algorithm, "kid": "r"}, at.claims(), key, algorithms=[algorithm]))
    token = jwt.encode({"alg": "ES256", "kid": "e"}, at.claims(), ec, algorithms=["ES256"])
    assert (await at.auth.identify(token)).user_id == "alice"
    await at.refuses(jwt.encode({"alg": "RS256", "kid": "unknown"}, at.claims(), key, algorithms=["RS256"]))


async def test_a_strange_kid_is_not_even_looked_up() -> None:
    keys = FixedKeys({})
    clock, accounts = TestClock(), Accounts()
    settings = AuthSettings(jwks_url="https://issuer.example/jwks")
    auth = Auth(settings, accounts, clock, keys)  # type: ignore[arg-type]
    with pytest.raises(Unauthorized):
        await auth.identify(sign({"alg": "RS256", "kid": "https://evil.example"}, {"sub": "alice"}))
    assert keys.asked == []


async def test_a_revocation_refuses_tokens_made_before_it() -> None:
    at = Setup()
    old = mint_token(SECRET, "alice", ttl_s=600, now_ms=at.clock.now_ms())
    await at.auth.identify(old)
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=at.clock.now_ms() + 1))
    at.auth.forget_user("alice")
    await at.refuses(old)
    at.clock.ahead_s += 0.01
    await at.auth.identify(mint_token(SECRET, "alice", ttl_s=600, now_ms=at.clock.now_ms()))


async def test_a_token_without_a_time_does_not_survive_a_revocation() -> None:
    at = Setup()
    token = sign({"alg": "HS256"}, at.claims(iat=None))
    await at.auth.identify(token)
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=1))
    at.auth.forget_user("alice")
    await at.refuses(token)


async def test_a_revocation_made_elsewhere_is_noticed_within_two_seconds() -> None:
    at = Setup()
    token = mint_token(SECRET, "alice", ttl_s=600, now_ms=at.clock.now_ms())
    await at.auth.identify(token)
    await at.auth.identify(token)
    assert at.accounts.user_reads == 1
    await at.accounts.put_user(User(user_id="alice", tokens_valid_after=at.clock.now_ms() + 1))
    at.clock.ahead_s += ACCOUNT_S + 0.1
    await at.refuses(token)


async def test_an_account_that_was_read_before_its_change_is_not_remembered() -> None:
    at = Setup()
    token = mint_token(SECRET, "alice", ttl_s=600, now_ms=at.clock.now_ms())
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
        await at.auth.identify(mint_token(SECRET, "alice", ttl_s=60, now_ms=at.clock.now_ms()))


async def test_an_issuer_that_does_not_answer_is_not_a_bad_token() -> None:
    class Silent(FixedKeys):
        async def key_for(self, kid: str | None, algorithm: str) -> Any:
            raise StoreUnavailable()

    settings = AuthSettings(jwks_url="https://issuer.example/jwks")
    auth = Auth(settings, Accounts(), TestClock(), Silent({}))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await auth.identify(sign({"alg": "RS256"}, {"sub": "alice"}))


@pytest.mark.parametrize("settings", [AuthSettings(), AuthSettings(secret="x" * 31), AuthSettings(secret="")])
def test_a_weak_or_missing_secret_refuses_to_start_with_one_line(settings: AuthSettings) -> None:
    with pytest.raises(ValueError, match=r"\Aauth: [^\n]+\Z"):
        settings.check()


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


async def test_a_server_key_that_was_removed_is_refused_once_it_is_forgotten() -> None:
    at = Setup()
    await at.accounts.put_api_key(ApiKey(key_hash=hash_api_key("key"), name="ops", role="admin", created_ms=0))
    await at.auth.caller("GET", None, "key", "bob")
    await at.accounts.remove_api_key(hash_api_key("key"))
    at.clock.ahead_s = API_KEY_S + 0.001
    with pytest.raises(Unauthorized):
        await at.auth.caller("GET", None, "key", "bob")


async def test_a_user_id_header_without_a_key_means_nothing() -> None:
    at = Setup()
    token = mint_token(SECRET, "alice", ttl_s=60, now_ms=at.clock.now_ms())
    assert (await at.auth.caller("GET", token, None, "bob")).user_id == "alice"
    with pytest.raises(Unauthorized):
        await at.auth.caller("GET", None, None, "bob")


def test_what_is_remembered_ages_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = TestClock()
    cache: Remembered[int] = Remembered(clock, 2.0)
    cache.put("a", 1)
    assert cache.get("a") == (1,)
    clock.ahead_s = 3
    assert cache.get("a") is None
    monkeypatch.setattr("tidings.gateway.auth.REMEMBERED_MAX", 3)
    for n in range(10):
        cache.put(str(n), n)
    assert len(cache._values) <= 3


def test_a_minted_token_is_signed_with_the_secret() -> None:
    token = mint_token(SECRET, "alice", ttl_s=60, now_ms=1_500)
    claims = jwt.decode(token, OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert claims == {"sub": "alice", "iat": 1.5, "exp": 61}


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


async def test_the_claim_that_names_a_role_is_a_setting() -> None:
    clock = TestClock()
    auth = Auth(AuthSettings(secret=SECRET, role_claim="tier"), Accounts(), clock)
    claims = {"sub": "alice", "exp": clock.now_ms() // 1000 + 60, "tier": "gold", "role": "bot"}
    assert (await auth.identify(jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET)))).role == "gold"
