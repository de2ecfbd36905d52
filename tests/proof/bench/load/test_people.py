"""Tokens and headers of the benchmarks' users."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tidings.config.settings import Auth, Settings
from tidings.config.values import SettingsError
from tidings_proof.bench.load.people import Given, Keyed, Signed, people_of

SECRET = "a-secret-that-is-long-enough-for-hs256"


def test_a_token_is_signed_for_its_user() -> None:
    signed = Signed(SECRET, issuer="us", audience="them")
    claims = jwt.decode(signed.token("alice"), OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert (claims["sub"], claims["iss"], claims["aud"]) == ("alice", "us", "them")
    assert claims["exp"] > claims["iat"]
    assert signed.headers("alice")["Authorization"].startswith("Bearer ")


def test_an_api_key_speaks_for_any_user_over_rest_and_for_none_on_a_socket() -> None:
    keyed = Keyed("k1")
    assert keyed.headers("bob") == {"X-Api-Key": "k1", "X-User-Id": "bob"}
    with pytest.raises(SettingsError, match="takes a user's token and no API key"):
        keyed.token("bob")


def test_the_key_wins_over_the_secret_and_the_secret_over_asking() -> None:
    settings = Settings(auth=Auth(secret=SECRET))
    assert isinstance(people_of("http://nowhere", settings, "k1"), Keyed)
    assert isinstance(people_of("http://nowhere", settings, None), Signed)


@contextmanager
def answering(status: int) -> Iterator[tuple[str, list[str]]]:
    """A server that gives every asker the same token, or refuses; and what it was asked for."""
    asked: list[str] = []

    class Dev(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"token":"t1"}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Dev) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_server_with_dev_is_asked_once_for_each_user() -> None:
    with answering(200) as (url, asked):
        people = people_of(url, Settings(), None)
        assert isinstance(people, Given)
        assert [people.token("bench"), people.token("alice"), people.token("alice")] == ["t1"] * 3
    assert asked == ["/v1/dev/token"] * 2


def test_a_server_that_gives_no_tokens_is_said_in_one_line() -> None:
    with answering(404) as (url, _), pytest.raises(SettingsError, match=r"gives no tokens \(404\)"):
        people_of(url, Settings(), None)
