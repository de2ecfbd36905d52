from __future__ import annotations

from typing import Any, cast

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tests.support.clocks import AheadClock
from tests.support.gateway.served import SECRET
from tests.support.gateway.signing import sign
from tidings.config.settings import Auth
from tidings.errors import StoreUnavailable
from tidings.gateway.tokens import BadToken, Tokens, mint_token

HS256 = {"alg": "HS256"}


class Setup:
    def __init__(self, keys: dict[str | None, Any] | None = None, **settings: Any) -> None:
        self.clock = AheadClock()
        source = cast(Any, FixedKeys(keys) if keys else None)
        self.tokens = Tokens(Auth(**{"secret": SECRET} | settings), self.clock, source)

    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def claims(self, **changes: Any) -> dict[str, Any]:
        given = {"sub": "alice", "iat": self.now_s(), "exp": self.now_s() + 60} | changes
        return {name: value for name, value in given.items() if value is not None}

    async def refuses(self, token: str) -> str:
        """The reason, which is for the log."""
        with pytest.raises(BadToken) as caught:
            await self.tokens.verify(token)
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


async def test_every_bad_token_is_refused_with_a_reason_that_quotes_nothing_of_it() -> None:
    at = Setup(issuer="us", audience="chat")
    good = at.claims(iss="us", aud=["chat", "else"])
    assert (await at.tokens.verify(sign(HS256, good))).user_id == "alice"
    for token in [*badly_made(good), *badly_claimed(good, at.now_s())]:
        reason = await at.refuses(token)
        assert reason and "evil" not in reason and "alice" not in reason


@pytest.mark.parametrize(
    ("header", "changes", "reason"),
    [
        ({"jku": "https://evil.example/jwks"}, {}, "the header says how to check it"),
        ({"kid": "../../dev/null"}, {}, "kid has characters that no key id has"),
        ({"typ": "secevent+jwt"}, {}, "typ is not JWT"),
        ({"alg": "none"}, {}, "no key for its algorithm and kid"),
        ({}, {"iat": 2**52}, "iat is in the future"),
        ({}, {"nbf": 2**52}, "nbf is in the future"),
        ({}, {"nbf": "soon"}, "nbf is not a time"),
        ({}, {"exp": None}, "no exp"),
        ({}, {"iss": "them"}, "iss is not auth.issuer"),
        ({}, {"aud": ["mail"]}, "aud does not name auth.audience"),
        ({}, {"sub": "a{b}"}, "sub is not a user id"),
    ],
)
async def test_each_check_has_its_reason(header: dict[str, Any], changes: dict[str, Any], reason: str) -> None:
    at = Setup(issuer="us", audience="chat")
    claims = at.claims(**{"iss": "us", "aud": "chat"} | changes)
    assert await at.refuses(sign(HS256 | header, claims)) == reason


async def test_clocks_may_differ_by_a_minute() -> None:
    at = Setup()
    now_s = at.now_s()
    await at.tokens.verify(sign(HS256, at.claims(nbf=now_s + 50, iat=now_s + 50)))
    await at.refuses(sign(HS256, at.claims(nbf=now_s + 70)))


async def test_a_public_key_is_never_taken_for_a_secret() -> None:
    key = RSAKey.generate_key(2048, {"kid": "r1"})
    at = Setup(secret=None, jwks_url="https://issuer.example/jwks", keys={"r1": key, None: key})
    pem = key.as_pem(private=False)
    await at.refuses(sign({"alg": "HS256", "kid": "r1"}, at.claims(), pem))
    token = jwt.encode({"alg": "RS256", "kid": "r1"}, at.claims(), key, algorithms=["RS256"])
    assert (await at.tokens.verify(token)).user_id == "alice"


async def test_a_key_set_knows_asymmetric_algorithms_only() -> None:
    key, ec = RSAKey.generate_key(2048), ECKey.generate_key("P-256")
    at = Setup(secret=None, jwks_url="https://issuer.example/jwks", keys={"r": key, "e": ec})
    for algorithm in ("HS256", "HS384", "none"):
        assert await at.refuses(sign({"alg": algorithm, "kid": "r"}, at.claims())) == "no key for its algorithm and kid"
    token = jwt.encode({"alg": "ES256", "kid": "e"}, at.claims(), ec, algorithms=["ES256"])
    assert (await at.tokens.verify(token)).user_id == "alice"
    await at.refuses(jwt.encode({"alg": "RS256", "kid": "unknown"}, at.claims(), key, algorithms=["RS256"]))


async def test_a_strange_kid_is_not_even_looked_up() -> None:
    keys = FixedKeys({})
    tokens = Tokens(Auth(jwks_url="https://issuer.example/jwks"), AheadClock(), cast(Any, keys))
    with pytest.raises(BadToken):
        await tokens.verify(sign({"alg": "RS256", "kid": "https://evil.example"}, {"sub": "alice"}))
    assert keys.asked == []


async def test_an_issuer_that_does_not_answer_is_not_a_bad_token() -> None:
    class Silent(FixedKeys):
        async def key_for(self, kid: str | None, algorithm: str) -> Any:
            raise StoreUnavailable()

    tokens = Tokens(Auth(jwks_url="https://issuer.example/jwks"), AheadClock(), cast(Any, Silent({})))
    with pytest.raises(StoreUnavailable):
        await tokens.verify(sign({"alg": "RS256"}, {"sub": "alice"}))


@pytest.mark.parametrize("settings", [Auth(), Auth(secret="x" * 31), Auth(secret="")])
def test_a_weak_or_missing_secret_refuses_to_start_with_one_line(settings: Auth) -> None:
    with pytest.raises(ValueError, match=r"\Aauth: [^\n]+\Z"):
        Tokens(settings, AheadClock())


def test_a_minted_token_is_signed_with_the_secret() -> None:
    token = mint_token(Auth(secret=SECRET), "alice", ttl_s=60, now_ms=1_500)
    claims = jwt.decode(token, OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert claims == {"sub": "alice", "iat": 1.5, "exp": 61}


async def test_the_claim_that_names_a_role_is_a_setting() -> None:
    clock = AheadClock()
    tokens = Tokens(Auth(secret=SECRET, role_claim="tier"), clock)
    claims = {"sub": "alice", "exp": clock.now_ms() // 1000 + 60, "tier": "gold", "role": "bot"}
    assert (await tokens.verify(jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET)))).role == "gold"


async def test_a_token_of_each_secret_is_valid_while_a_secret_is_replaced() -> None:
    old, new = "the secret of last year, long enough", "the secret of this year, long enough"
    at = Setup(secret=new, secret_previous=old)
    for secret in (old, new):
        assert (await at.tokens.verify(sign(HS256, at.claims(), secret.encode()))).user_id == "alice"
    assert await at.refuses(sign(HS256, at.claims(), b"a secret that nobody has set, at all")) == "BadSignatureError"
    with pytest.raises(ValueError, match="fewer than"):
        Setup(secret_previous="short")


PROVIDERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "auth0": ({"user_claim": "sub"}, {"sub": "auth0|5f7c8ec7c33c6c004bbafe82", "gty": "password"}, "RS256"),
    "google": ({"user_claim": "sub"}, {"sub": "google-oauth2|117", "azp": "x", "email_verified": True}, "RS256"),
    "entra": ({"user_claim": "oid"}, {"sub": "AAAA_x-y", "oid": "b5a3c0e2-1f4c-4d7a-9c3b", "tid": "t"}, "PS256"),
    "keycloak": (
        {"user_claim": "preferred_username"},
        {"sub": "f:1:2", "preferred_username": "a+b@example.com", "typ": "Bearer", "realm_access": {"roles": []}},
        "ES512",
    ),
    "urn": (
        {"user_claim": "https://example.com/user"},
        {"sub": "7", "https://example.com/user": "urn:user:7"},
        "EdDSA",
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tokens_as_identity_providers_make_them_sign_in(provider: str) -> None:
    settings, claims, algorithm = PROVIDERS[provider]
    key: Any = {"R": RSAKey, "P": RSAKey, "E": ECKey}[algorithm[0]] if algorithm != "EdDSA" else OKPKey
    size: Any = {RSAKey: 2048, ECKey: "P-521", OKPKey: "Ed25519"}[key]
    kid = "1LTMzakihiRla_8z2BEJVXeWMqo+/="
    signer = key.generate_key(size, {"kid": kid})
    at = Setup(secret=None, jwks_url="https://idp.example/keys", keys={kid: signer}, issuer="https://idp.example/",
               audience="chat", **settings)  # fmt: skip
    whole = at.claims(iss="https://idp.example/", aud=["chat", "other"]) | claims
    token = jwt.encode({"alg": algorithm, "kid": kid, "typ": "JWT"}, whole, signer, algorithms=[algorithm])
    assert (await at.tokens.verify(token)).user_id == claims[str(settings["user_claim"])]


async def test_each_bad_token_has_one_of_the_known_reasons() -> None:
    at = Setup(issuer="us")
    good = at.claims(iss="us")
    bad = {
        "not a token": "malformed",
        sign(HS256 | {"jku": "https://evil.example"}, good): "malformed",
        sign(HS256, good, b"another secret, which is long as well"): "signature",
        sign(HS256, good)[:-3] + "AAA": "signature",
        sign({"alg": "RS256", "kid": "k"}, good): "unknown_key",
        sign({"alg": "none"}, good): "unknown_key",
        sign(HS256, good | {"iss": "them"}): "claims",
        sign(HS256, good | {"sub": "a b"}): "claims",
        sign(HS256, {name: value for name, value in good.items() if name != "exp"}): "claims",
    }
    for token, reason in bad.items():
        with pytest.raises(BadToken) as caught:
            await at.tokens.verify(token)
        assert caught.value.reason == reason, token
