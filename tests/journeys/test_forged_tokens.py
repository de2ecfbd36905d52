"""Forged tokens: whatever is wrong with one, it is the same `unauthorized`, without a hint why."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.gateway.raw_websocket import Wire
from tests.support.nodes.attacked_node import BAD_IDS, Attacked
from tests.support.nodes.node_process import SECRET, NodeProcess
from tidings.clock import Clock


def hs256(claims: dict[str, Any], secret: str = SECRET, **header: Any) -> str:
    """By hand: a library would refuse half of what follows."""
    signed = f"{base64url({'alg': 'HS256', **header})}.{base64url(claims)}"
    signature = hmac.digest(secret.encode(), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def unsigned(algorithm: str, claims: dict[str, Any]) -> str:
    return f"{base64url({'alg': algorithm, 'typ': 'JWT'})}.{base64url(claims)}."


def base64url(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def forged_tokens() -> dict[str, str]:
    now_s = Clock().now_ms() // 1000
    good = {"sub": "alice", "iat": now_s, "exp": now_s + 600}
    head, body, signature = hs256(good).split(".")
    return {
        "alg none": unsigned("none", good),
        "alg None": unsigned("None", good),
        "alg none with a signature": unsigned("none", good) + signature,
        "no signature": f"{head}.{body}.",
        "another's claims": f"{head}.{base64url({**good, 'sub': 'bob'})}.{signature}",
        "another secret": hs256(good, "another-secret-that-is-long-enough-too"),
        "expired": hs256({**good, "exp": now_s - 1}),
        "no exp": hs256({"sub": "alice", "iat": now_s}),
        "exp as text": hs256({**good, "exp": str(now_s + 600)}),
        "exp far too large": hs256({**good, "exp": 10**30}),
        "not yet": hs256({**good, "nbf": now_s + 600}),
        "from the future": hs256({**good, "iat": now_s + 600}),
        "no sub": hs256({"iat": now_s, "exp": now_s + 600}),
        "a key of its own": hs256(good, jwk={"kty": "oct", "k": "AAAA"}),
        "a key from elsewhere": hs256(good, jku="http://127.0.0.1:1/keys"),
        "empty": "",
        "dots": "..",
        "not base64": "a.b.c",
        "endless": "a" * 9_000,
    }


async def check_no_token(attack: Attacked, token: str) -> None:
    """401 over REST; `unauthorized` and 4500 over the WebSocket; and never a hint why."""
    status, answer = await attack.rest("x", "GET", "/v1/inbox", Authorization=f"Bearer {token}")
    assert (status, answer["error"]["code"]) == (401, "unauthorized")
    assert answer["error"]["message"] == "No valid token or API key."
    wire = await Wire.open(attack.port)
    wire.say(id=1, type="connect", token=token)
    told = await wire.hear()
    assert (told["type"], told["code"], told["message"]) == ("error", "unauthorized", "No valid token or API key.")
    assert await wire.closed() == 4500


@pytest.mark.parametrize("name", forged_tokens())
async def test_a_forged_token_is_no_token(attack: Attacked, name: str) -> None:
    await check_no_token(attack, forged_tokens()[name])


async def test_a_token_signed_by_hand_is_taken(attack: Attacked) -> None:
    """So that the forged ones are refused for what is wrong with them."""
    now_s = Clock().now_ms() // 1000
    token = hs256({"sub": "alice", "iat": now_s, "exp": now_s + 60})
    assert (await attack.rest("x", "GET", "/v1/inbox", Authorization=f"Bearer {token}"))[0] == 200


@pytest.mark.parametrize(
    "bad", [*BAD_IDS.values(), None, 7, ["alice"]], ids=[*BAD_IDS.keys(), "null", "number", "list"]
)
async def test_a_token_for_an_id_that_is_none_is_no_token(attack: Attacked, bad: Any) -> None:
    now_s = Clock().now_ms() // 1000
    await check_no_token(attack, hs256({"sub": bad, "iat": now_s, "exp": now_s + 60}))


async def test_a_token_is_not_taken_from_a_url(attack: Attacked) -> None:
    _, head = await Wire.handshake(attack.port, f"/v1/ws?token={attack.token('alice')}")
    assert b" 400 " in head.split(b"\r\n")[0]


@pytest.fixture(scope="module")
def issuer() -> Iterator[tuple[str, RSAKey]]:
    """The team's own key set on a loopback port, and its private key."""
    key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig", "alg": "RS256"})
    document = json.dumps({"keys": [key.as_dict(private=False)]}).encode()

    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys", key
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_public_key_is_not_taken_for_a_secret(issuer: tuple[str, RSAKey], tmp_path: Path) -> None:
    url, key = issuer
    now_s = Clock().now_ms() // 1000
    claims = {"sub": "alice", "iat": now_s, "exp": now_s + 600}
    public = [key.as_pem(private=False).decode(), key.as_pem(private=False).decode().strip()]
    public.append(json.dumps(key.as_dict(private=False)))
    forged = [hs256(claims, secret, kid="k1") for secret in public] + [unsigned("none", claims)]
    with NodeProcess(tmp_path / "data", {"TIDINGS_AUTH_JWKS_URL": url}) as node:
        node.start()
        signed = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, key)
        assert node.rest("GET", "/v1/inbox", token=signed)[0] == 200, "the real one is taken"
        assert [node.rest("GET", "/v1/inbox", token=token)[0] for token in forged] == [401] * 4
        assert node.rest("GET", "/v1/inbox")[0] == 401, "no secret was set, so no HS256 at all"
