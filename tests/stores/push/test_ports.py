"""The values of push: what may be a token, and which addresses we would ever post to."""

from __future__ import annotations

import pytest

from tidings.config.settings import Push
from tidings.stores.push.ports import is_endpoint, is_token, short_id

HOSTS = Push().webpush_hosts


@pytest.mark.parametrize(
    "url",
    [
        "https://fcm.googleapis.com/fcm/send/abc:def",
        "https://fcm.googleapis.com:443/wp/abc",
        "https://updates.push.services.mozilla.com/wpush/v2/gAAA",
        "https://web.push.apple.com/QGuQ",
        "https://wns2-par02p.notify.windows.com/w/?token=BQY",
    ],
)
def test_the_push_services_of_browsers_are_known(url: str) -> None:
    assert is_endpoint(url, HOSTS)


@pytest.mark.parametrize(
    "url",
    [
        "http://fcm.googleapis.com/x",
        "https://fcm.googleapis.com:8443/x",
        "https://fcm.googleapis.com.evil.example/x",
        "https://evilfcm.googleapis.com/x",
        "https://push.apple.com/x",
        "https://user@fcm.googleapis.com/x",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/x",
        "https://[::1]/x",
        "https://fcm.googleapis.com\\@evil.example/x",
        "https://evil.example#@fcm.googleapis.com/x",
        "https://fcm.googleapis.com/x\r\nhost: evil.example",
        "https://fcm.googleapis.com:port/x",
        "https:///x",
        "",
    ],
)
def test_any_other_address_is_refused(url: str) -> None:
    assert not is_endpoint(url, HOSTS)


def test_a_token_cannot_leave_its_place_in_a_path() -> None:
    assert is_token("apns", "aB1" * 30)
    assert is_token("fcm", "dHJ1c3Q:APA91b-_" * 10)
    for token in ("../../3/device/" + "a" * 64, "a" * 64 + "?x=1", "a" * 10, "a" * 64 + "\n", ""):
        assert not is_token("apns", token)
    for token in ("a" * 15, "a b" * 20, "a" * 4097, "a" * 20 + "\r\nx"):
        assert not is_token("fcm", token)
    assert not is_token("webpush", "https://fcm.googleapis.com/x")


def test_an_id_is_shortened_only_where_it_must_be() -> None:
    assert short_id("c1", 64) == "c1"
    assert len(short_id("c" * 128, 64)) == 64 and short_id("c" * 128, 64) != short_id("c" * 127, 64)
