"""`tidings token create` and `verify`: a signed token with the right claims, and why one is refused."""

from __future__ import annotations

import json

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.support.command_line import SECRET, complaint
from tidings.cli.main import main


def test_a_token_carries_the_user_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "--user", "alice", "--ttl", "15m", "--auth-secret", SECRET]) == 0
    claims = jwt.decode(capsys.readouterr().out.strip(), OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert claims["sub"] == "alice" and int(claims["exp"]) - int(claims["iat"]) == 900
    assert set(claims) == {"sub", "iat", "exp"}


def test_a_token_names_issuer_and_audience_where_they_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    required = ["--auth-secret", SECRET, "--auth-issuer", "us", "--auth-audience", "chat"]
    assert main(["token", "create", "--user", "alice", "--json", *required]) == 0
    answer = json.loads(capsys.readouterr().out)
    claims = jwt.decode(answer["token"], OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert (claims["iss"], claims["aud"]) == ("us", "chat")
    assert answer["expires_at"] == claims["exp"] * 1000


@pytest.mark.parametrize(
    "words", [["--user", "a b"], ["--user", "alice", "--ttl", "1w"], ["--user", "alice", "--ttl", "0s"]]
)
def test_a_bad_user_or_time_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert words[-2] in complaint(capsys, "token", "create", "--auth-secret", SECRET, *words)


def test_without_a_secret_no_token_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert "TIDINGS_AUTH_SECRET" in complaint(capsys, "token", "create", "--user", "alice")


def test_a_token_is_verified_with_its_user_or_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    by = ["--auth-secret", SECRET]
    assert main(["token", "create", "--user", "auth0|5f7c", *by]) == 0
    token = capsys.readouterr().out.strip()
    assert main(["token", "verify", token, "--json", *by]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] and answer["user_id"] == "auth0|5f7c"
    for bad, reason in ((token[:-3] + "AAA", "signature"), ("x", "malformed"), (expired(), "expired")):
        assert main(["token", "verify", bad, *by]) == 1
        assert f"valid: no\nreason: {reason}" in capsys.readouterr().out


def test_a_time_is_milliseconds_for_a_program_and_a_date_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    by = ["--auth-secret", SECRET]
    assert main(["token", "create", "--user", "alice", "--json", *by]) == 0
    made = json.loads(capsys.readouterr().out)
    assert main(["token", "verify", made["token"], "--json", *by]) == 0
    assert json.loads(capsys.readouterr().out)["expires_at"] == made["expires_at"]
    assert main(["token", "verify", expired(), "--json", *by]) == 1
    assert json.loads(capsys.readouterr().out)["expires_at"] == 5000
    assert main(["token", "verify", expired(), *by]) == 1
    assert "expires_at: 1970-01-01T00:00:05Z\n" in capsys.readouterr().out


def expired() -> str:
    return jwt.encode({"alg": "HS256"}, {"sub": "alice", "exp": 5}, OctKey.import_key(SECRET))
