"""Parsers of settings: a value, or one line that says what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidings.bounds import Limit
from tidings.config import values
from tidings.config.values import SettingsError


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (values.text, "  a b ", "a b"),
        (values.secret, "s" * 32 + "\n", "s" * 32),
        (values.path, "/a/b", Path("/a/b")),
        (values.flag, "true", True),
        (values.whole(1, 9), " 7", 7),
        (values.days_or_off, "off", None),
        (values.days_or_off, "0", 0),
        (values.limit, "100 / 60s", Limit(100, 60)),
        (values.limit, "off", None),
        (values.duration_s, "15m", 900),
        (values.duration_s, "2d", 172_800),
        (values.safe_id, "a.b@c-d", "a.b@c-d"),
        (values.host, "[::1]", "::1"),
        (values.web_url, "https://a.example/x ", "https://a.example/x"),
        (values.contact, "mailto:ops@example.com", "mailto:ops@example.com"),
        (values.push_hosts, "A.example, *.b.example:8443", ("a.example", "*.b.example:8443")),
        (values.origins, "https://A.example/, *", ("https://a.example", "*")),
    ],
)
def test_a_good_text_becomes_its_value(parse: Callable[[str], object], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (values.text, " ", "not empty"),
        (values.secret, "short", "openssl rand -hex 32"),
        (values.flag, "yes", "true, false"),
        (values.whole(1, 9), "12", "the nearest is 9"),
        (values.choice("until_read", "when_offline"), "when_ofline", "did you mean when_offline?"),
        (values.days_or_off, "soon", "or off"),
        (values.limit, "100", "100/60s"),
        (values.limit, "0/60s", "1 or more"),
        (values.duration_s, "0s", "90s, 15m, 1h or 30d"),
        (values.safe_id, "..", "not . or .."),
        (values.host, "a:80", "the port has its own setting"),
        (values.web_url, "ftp://a", "http:// or https://"),
        (values.contact, "ops@example.com", "mailto:"),
        (values.push_hosts, "https://a.example", "is not a host name"),
        (values.origins, "https://a.example/path", "https://chat.example.com"),
    ],
)
def test_a_bad_text_is_answered_with_what_would_be_right(parse: Callable[[str], object], text: str, hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    assert hint in str(caught.value) and "\n" not in str(caught.value)


def test_a_password_in_a_url_is_masked_up_to_the_last_at_sign() -> None:
    assert values.mask_url("redis://me:p@ss/word@host:1") == "redis://me:********@host:1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://issuer.example/keys?api_key=SECRET&v=2", "https://issuer.example/keys?api_key=********&v=********"),
        ("https://collector.example?SECRET", "https://collector.example?********"),
        ("https://SECRET@host.example/x", "https://********@host.example/x"),
        ("https://host.example/x#SECRET", "https://host.example/x"),
        ("redis://:SECRET@host:1/0?prefix=team_", "redis://:********@host:1/0?prefix=team_"),
        ("redis://host:1?SECRET=SECRET", "redis://host:1?SECRET=********"),
        ("redis+cluster://me:SECRET@a:1,b:2?prefix=t", "redis+cluster://me:********@a:1,b:2?prefix=t"),
        ("dynamodb://eu-west-1?endpoint=http://k:SECRET@h:1", "dynamodb://eu-west-1?endpoint=http:********@h:1"),
        ("s3://bucket/prefix?region=eu", "s3://bucket/prefix?region=eu"),
        ("sqlite:///path/a.db", "sqlite:///path/a.db"),
        ("./folder?a=b", "./folder?a=b"),
        ("https://host.example/x?", "https://host.example/x?"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, shown: str) -> None:
    assert values.mask_url(url) == shown


def test_only_this_machine_reaches_a_loopback_address() -> None:
    assert values.is_loopback("localhost") and values.is_loopback("::1") and not values.is_loopback("0.0.0.0")


def test_a_word_that_is_like_none_has_no_suggestion() -> None:
    assert values.nearest("prot", ["port", "host"]) == "; did you mean port?"
    assert values.nearest("xyzzy", ["port", "host"]) == ""
