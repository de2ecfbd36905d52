from __future__ import annotations

import msgspec
import pytest

from tidings.errors import BadRequest
from tidings.gateway.http.pictures import Pictures

LISTED = Pictures(("example.com", "*.pictures.test", "cdn.test:8443"))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "https://EXAMPLE.com:443/a.png",
        "https://a.b.pictures.test/x",
        "https://cdn.test:8443/x",
        None,
        msgspec.UNSET,
    ],
)
def test_a_listed_host_is_taken(url: str | None) -> None:
    LISTED.check(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://tracker.example/a.png",
        "http://example.com/a.png",
        "https://example.com.evil.test/a.png",
        "https://example.com@evil.test/a.png",
        "https://evil.test\\@example.com/a.png",
        "https://pictures.test/x",
        "https://xpictures.test/x",
        "https://cdn.test/x",
        "https://example.com:8443/x",
        "https://[::1/x",
    ],
)
def test_any_other_host_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        LISTED.check(url)
    with pytest.raises(BadRequest):
        Pictures(()).check("https://example.com/a.png")


def test_a_star_takes_every_host() -> None:
    Pictures(("*",)).check("http://anywhere.test/a.png")
    assert Pictures(("*",)).sources == "https:"
