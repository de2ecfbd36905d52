"""What the providers share: how a refusal is read, and how passes are renewed."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.clocks import AheadClock
from tidings.stores.push.http import Pass, fields_of, open_client, post, retry_after_s
from tidings.stores.push.ports import Outcome, Verdict


def response(body: bytes = b"", **headers: str) -> httpx2.Response:
    return httpx2.Response(
        429, headers={name.replace("_", "-"): value for name, value in headers.items()}, content=body
    )


def test_a_wait_is_given_in_seconds_or_as_a_date() -> None:
    clock = AheadClock()
    assert retry_after_s(response(retry_after="37"), clock) == 37.0
    assert retry_after_s(response(retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), clock) == 0.0
    far = retry_after_s(response(retry_after="Fri, 31 Dec 2100 23:59:59 GMT"), clock)
    assert far is not None and far > 3600
    for text in ("", "soon", "-1", "1e3"):
        assert retry_after_s(response(retry_after=text), clock) is None
    assert retry_after_s(response(), clock) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'"text"', b"\xff\xfe"])
def test_a_body_that_is_no_object_has_no_fields(body: bytes) -> None:
    assert fields_of(response(body)) == {}
    assert fields_of(response(b'{"reason":"Shutdown"}')) == {"reason": "Shutdown"}


def test_a_pass_is_made_again_when_it_is_old_or_refused_and_only_then() -> None:
    clock, made = AheadClock(), 0

    def make(now_s: int) -> str:
        nonlocal made
        made += 1
        return f"pass-{made}"

    pass_ = Pass(make, 100.0, clock)
    assert [pass_.current(), pass_.current()] == ["pass-1", "pass-1"]
    pass_.renew("pass-1")
    pass_.renew("pass-1")  # the second of two requests that were refused together
    assert pass_.current() == "pass-2"
    clock.ahead_s = 101
    assert pass_.current() == "pass-3"


async def test_an_address_that_cannot_be_posted_to_is_put_off_and_never_raises() -> None:
    async with open_client() as client:
        for url in ("https://localhost:1/x", "https://[bad", "ftp://localhost/x"):
            outcome = await post(client, url, {}, b"")
            assert isinstance(outcome, Outcome) and outcome.verdict is Verdict.LATER
