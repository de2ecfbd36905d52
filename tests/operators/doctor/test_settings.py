"""Settings that are accepted and still dangerous are named with what to set instead."""

from __future__ import annotations

import dataclasses
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.doctor_targets import SECRET, named
from tidings.config.settings import Auth, Limits, Push, Settings
from tidings.operators.doctor.settings import check_jwks, check_settings, secret_bits


def settings(**changes: Any) -> Settings:
    return dataclasses.replace(Settings(), **{"auth": Auth(secret=SECRET), **changes})


@pytest.mark.parametrize("secret", ["a" * 64, "abababab" * 8, "my-secret-of-the-whole-company-is-long"])
def test_a_secret_that_can_be_guessed_is_wrong(secret: str) -> None:
    finding = named(check_settings(settings(auth=Auth(secret=secret)), {}), "settings.secret")
    assert finding.level == "wrong" and "openssl rand -hex 32" in finding.fix
    assert secret not in finding.says


def test_a_random_secret_is_fine_and_never_shown() -> None:
    findings = list(check_settings(settings(), {"auth.secret": "environment TIDINGS_AUTH_SECRET"}))
    assert named(findings, "settings.secret").level == "ok" and secret_bits(SECRET) > 128
    assert not any(SECRET in finding.says + finding.fix for finding in findings)
    assert {finding.level for finding in findings} == {"ok"}


def test_a_secret_on_the_command_line_is_told() -> None:
    findings = check_settings(settings(), {"auth.secret": "flag --auth-secret"})
    assert named(findings, "settings.secret_source").level == "advice"


def test_a_node_that_could_not_start_is_told_before_it_does() -> None:
    assert named(check_settings(settings(auth=Auth()), {}), "settings.sign_in").level == "wrong"
    assert named(check_settings(settings(dev=True), {}), "settings.sign_in").level == "advice"
    assert named(check_settings(settings(dev=True, host="0.0.0.0"), {}), "settings.sign_in").level == "wrong"


def test_open_origins_are_wrong_and_unencrypted_ones_worth_a_look() -> None:
    assert named(check_settings(settings(allowed_origins=("*",)), {}), "settings.origins").level == "wrong"
    bare = named(check_settings(settings(allowed_origins=("http://chat.example.com",)), {}), "settings.origins")
    assert bare.level == "advice" and "https://chat.example.com" in bare.fix
    assert (
        named(check_settings(settings(allowed_origins=("http://localhost:3000",)), {}), "settings.origins").level
        == "ok"
    )


def test_a_class_without_a_limit_is_told_with_the_line_that_sets_one() -> None:
    off = dataclasses.replace(Limits(), send=None)
    assert "TIDINGS_LIMITS_SEND=100/60s" in named(check_settings(settings(limits=off), {}), "settings.limits").fix


def test_a_keyspace_over_a_network_wants_tls_a_password_and_tables_that_can_be_shared() -> None:
    open_one = list(check_settings(settings(keyspace="redis://10.0.0.5:6379"), {}))
    assert len([finding for finding in open_one if finding.name == "settings.keyspace"]) == 2
    assert "dynamodb" in named(open_one, "settings.tables").fix
    cluster = list(check_settings(settings(keyspace="redis+cluster://10.0.0.5:1,10.0.0.6:1"), {}))
    assert "tls=true" in named(cluster, "settings.keyspace").fix
    fine = settings(keyspace="rediss://u:p@10.0.0.5:6379", tables="dynamodb://eu-west-1")
    assert {finding.level for finding in check_settings(fine, {})} == {"ok"}
    assert {finding.level for finding in check_settings(settings(keyspace="redis://127.0.0.1:1"), {})} == {"ok"}


def test_a_push_key_that_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    push = dataclasses.replace(Push(), vapid_key_file=tmp_path / "nowhere.pem")
    assert named(check_settings(settings(push=push), {}), "settings.push").level == "wrong"


# --- the key set ----------------------------------------------------------------------------------


@contextmanager
def serving(body: bytes, status: int = 200) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "status", "level"),
    [
        (b'{"keys":[{"kty":"RSA"}]}', 200, "ok"),
        (b'{"keys":[]}', 200, "unknown"),
        (b"no", 200, "wrong"),
        (b"", 500, "wrong"),
    ],
)
async def test_the_key_set_is_fetched_as_a_node_does_it(body: bytes, status: int, level: str) -> None:
    with serving(body, status) as url:
        assert (await check_jwks(url)).level == level


async def test_a_key_set_that_does_not_answer_or_is_not_encrypted_is_wrong() -> None:
    assert (await check_jwks("http://127.0.0.1:1/keys")).level == "wrong"
    assert "https" in (await check_jwks("http://issuer.example.com/keys")).fix
