"""Base64url: bytes come back as they were, and nothing else is taken for them."""

from __future__ import annotations

import ast

import pytest

from tests.support.tidy import SRC
from tidings.base64url import from_base64url, to_base64url


@pytest.mark.parametrize(("raw", "text"), [(b"", ""), (b"\xff", "_w"), (b"\xfb\xff", "-_8"), (b"abc", "YWJj")])
def test_bytes_have_one_text_without_padding_and_come_back(raw: bytes, text: str) -> None:
    assert to_base64url(raw) == text
    assert from_base64url(text) == raw
    assert from_base64url(text + "=" * (-len(text) % 4)) == raw


@pytest.mark.parametrize("text", ["_", "_w\n", "_w!", "YWJj YWJj", "ÿw"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_base64url(text)


def test_no_other_module_of_the_server_makes_base64url() -> None:
    names = {
        file.relative_to(SRC).as_posix()
        for file in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.startswith("urlsafe_b64")
    }
    assert names == {"base64url.py"}
