from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from tests.support.clocks import AheadClock
from tidings.config.settings import Auth
from tidings.errors import StoreUnavailable
from tidings.gateway.jwks import REFETCH_BURST, REFETCH_S, SET_BYTES_MAX, STALE_S, KeySource, open_key_source

URL = "https://issuer.example/jwks"


class Issuer:
    """Serves a key set without a network."""

    def __init__(self, *keys: Any) -> None:
        self.clock = AheadClock()
        self.keys = list(keys)
        self.status = 200
        self.raw: bytes | None = None
        self.urls: list[str] = []
        transport = httpx2.MockTransport(self._answer)
        self.source = KeySource(URL, self.clock, httpx2.AsyncClient(transport=transport))

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.urls.append(str(request.url))
        await asyncio.sleep(0)  # as a network would
        body = self.raw if self.raw is not None else json.dumps(KeySet(self.keys).as_dict(private=False)).encode()
        return httpx2.Response(self.status, content=body)

    async def finds(self, kid: str | None, algorithm: str = "RS256") -> bool:
        return await self.source.key_for(kid, algorithm) is not None


@pytest.fixture(scope="module")
def rsa() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "r1"})


async def test_a_kid_is_looked_up_in_the_fetched_set_only(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert await issuer.finds("r1")
    assert not await issuer.finds("https://evil.example/jwks")
    assert set(issuer.urls) == {URL}


async def test_unknown_kids_fetch_again_a_few_times_and_then_rarely(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert [await issuer.finds(f"x{n}") for n in range(REFETCH_BURST)] == [False] * REFETCH_BURST
    for n in range(50):
        with pytest.raises(StoreUnavailable):
            await issuer.finds(f"y{n}")
    assert len(issuer.urls) == REFETCH_BURST
    issuer.clock.ahead_s += REFETCH_S
    assert not await issuer.finds("z")
    assert len(issuer.urls) == REFETCH_BURST + 1
    assert await issuer.finds("r1")


async def test_made_up_kids_do_not_make_the_tokens_of_a_new_key_look_wrong(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    for n in range(REFETCH_BURST):
        await issuer.finds(f"x{n}")
    issuer.keys.append(RSAKey.generate_key(2048, {"kid": "r2"}))
    with pytest.raises(StoreUnavailable) as refused:
        await issuer.finds("r2")
    assert refused.value.retry_after_ms == REFETCH_S * 1000 and 2 <= REFETCH_S <= 5
    issuer.clock.ahead_s += REFETCH_S
    assert not await issuer.finds("made-up")  # the attacker is first again, and fetches the set for everybody
    assert await issuer.finds("r2")


async def test_a_kid_of_a_key_of_another_kind_is_refused_without_a_fetch(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert await issuer.finds("r1")
    assert not any([await issuer.finds("r1", "ES256") for _ in range(3 * REFETCH_BURST)])
    assert len(issuer.urls) == 1


async def test_callers_who_ask_together_share_a_fetch(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert all(await asyncio.gather(*(issuer.finds("r1") for _ in range(20))))
    assert len(issuer.urls) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"kty": "EC", "crv": "P-1024", "x": "AA", "y": "AA", "kid": "bad"},
        {"kty": "RSA", "kid": 5, "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "kid": "bad"},
        {"kty": "OKP", "crv": "Ed25519", "x": 5},
    ],
)
async def test_a_key_that_cannot_be_read_does_not_lose_the_others(rsa: RSAKey, bad: dict[str, Any]) -> None:
    issuer = Issuer()
    issuer.raw = json.dumps({"keys": [bad, rsa.as_dict(private=False)]}).encode()
    assert await issuer.finds("r1")
    assert not await issuer.finds("bad")


async def test_a_key_for_encryption_checks_no_signature(rsa: RSAKey) -> None:
    issuer = Issuer()
    issuer.raw = json.dumps({"keys": [rsa.as_dict(private=False) | {"use": "enc"}]}).encode()
    assert not await issuer.finds("r1")


async def test_a_withdrawn_key_is_forgotten(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert await issuer.finds("r1")
    issuer.keys = [ECKey.generate_key("P-256", {"kid": "e1"})]
    issuer.clock.ahead_s += STALE_S + 1
    assert not await issuer.finds("r1")


async def test_known_keys_go_on_while_the_issuer_is_down(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert await issuer.finds("r1")
    issuer.status = 500
    issuer.clock.ahead_s += STALE_S + 1
    assert await issuer.finds("r1")


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"keys":5}', b'{"keys":[{"kty":"RSA"}]}', b"x" * (SET_BYTES_MAX + 1)])
async def test_an_issuer_that_never_answered_well_is_unavailable(raw: bytes) -> None:
    issuer = Issuer()
    issuer.raw = raw
    with pytest.raises(StoreUnavailable):
        await issuer.source.key_for("r1", "RS256")


async def test_a_redirect_is_not_followed(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    issuer.status = 302
    with pytest.raises(StoreUnavailable):
        await issuer.finds("r1")


async def test_a_key_serves_only_its_own_algorithm(rsa: RSAKey) -> None:
    ec, ed = ECKey.generate_key("P-256", {"kid": "e1"}), OKPKey.generate_key("Ed25519", {"kid": "o1"})
    issuer = Issuer(rsa, ec, ed, ECKey.generate_key("P-521", {"kid": "big"}))
    fitting = {"r1": "RS256", "e1": "ES256", "o1": "EdDSA"}
    for kid in fitting:
        for algorithm in fitting.values():
            assert await issuer.finds(kid, algorithm) is (fitting[kid] == algorithm)
    assert not await issuer.finds("big", "ES256")


async def test_a_token_without_kid_is_only_clear_with_one_fitting_key(rsa: RSAKey) -> None:
    issuer = Issuer(rsa)
    assert await issuer.finds(None)
    issuer = Issuer(rsa, RSAKey.generate_key(2048, {"kid": "r2"}))
    assert not await issuer.finds(None)


async def test_a_secret_in_the_set_is_left_out(rsa: RSAKey) -> None:
    issuer = Issuer()
    secret = OctKey.generate_key(256, {"kid": "s"}).as_dict(private=True)
    issuer.raw = json.dumps({"keys": [secret, rsa.as_dict(private=False)]}).encode()
    assert await issuer.finds("r1")
    assert not await issuer.finds("s")


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        (RSAKey.generate_key(2048, {"kid": "k"}), {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
        (RSAKey.generate_key(2048, {"kid": "k", "alg": "PS256"}), {"PS256"}),
        (ECKey.generate_key("P-256", {"kid": "k"}), {"ES256"}),
        (ECKey.generate_key("P-384", {"kid": "k"}), {"ES384"}),
        (ECKey.generate_key("P-521", {"kid": "k"}), {"ES512"}),
        (OKPKey.generate_key("Ed25519", {"kid": "k"}), {"EdDSA", "Ed25519"}),
    ],
)
async def test_a_key_is_used_with_its_own_algorithms_only(key: Any, algorithms: set[str]) -> None:
    issuer = Issuer(key, RSAKey.generate_key(2048, {"kid": "another"}))
    asked = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
    assert {name for name in asked if await issuer.finds("k", name)} == algorithms


class Discovered:
    """An issuer whose OpenID configuration names its keys."""

    def __init__(self, key: Any, **changes: str) -> None:
        self.urls: list[str] = []
        self._key = key
        self._configuration = {"issuer": "https://idp.example", "jwks_uri": "https://keys.example/set"} | changes
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        self.source = KeySource(None, AheadClock(), client, issuer="https://idp.example")

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.urls.append(str(request.url))
        is_configuration = request.url.path == "/.well-known/openid-configuration"
        return httpx2.Response(
            200, json=self._configuration if is_configuration else KeySet([self._key]).as_dict(private=False)
        )


async def test_the_issuer_names_its_keys(rsa: RSAKey) -> None:
    idp = Discovered(rsa)
    assert await idp.source.key_for("r1", "RS256") is not None
    assert idp.urls == ["https://idp.example/.well-known/openid-configuration", "https://keys.example/set"]


@pytest.mark.parametrize("changes", [{"issuer": "https://evil.example"}, {"jwks_uri": "http://keys.example/set"}])
async def test_a_configuration_of_another_issuer_or_without_tls_is_not_used(
    rsa: RSAKey, changes: dict[str, str]
) -> None:
    idp = Discovered(rsa, **changes)
    with pytest.raises(StoreUnavailable):
        await idp.source.key_for("r1", "RS256")
    assert len(idp.urls) == 1


async def test_a_private_ca_and_a_proxy_are_used_for_the_keys(tmp_path: Path) -> None:
    missing = Auth(jwks_url=URL, jwks_ca_file=tmp_path / "none.pem")
    with pytest.raises(ValueError, match="TIDINGS_AUTH_JWKS_CA_FILE"):
        open_key_source(missing, AheadClock())
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        source = open_key_source(Auth(jwks_url=URL, jwks_proxy=f"http://127.0.0.1:{port}"), AheadClock())
        with pytest.raises(StoreUnavailable):
            await source.key_for("k", "RS256")
        await source.close()
    assert asked == [b"CONNECT issuer.example:443 HTTP/1.1\r\n"]
