from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from tests.support.gateway.served import TestClock
from tidings.errors import StoreUnavailable
from tidings.gateway.jwks import REFETCH_BURST, REFETCH_S, SET_BYTES_MAX, STALE_S, KeySource

URL = "https://issuer.example/jwks"


class Issuer:
    """Serves a key set without a network."""

    def __init__(self, *keys: Any) -> None:
        self.clock = TestClock()
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
