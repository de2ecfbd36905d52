from __future__ import annotations

import pytest
from msgspec import UNSET

from tidings_client.contents import check_content, check_patch
from tidings_client.errors import BadRequest, TooLarge


def test_a_message_says_something() -> None:
    check_content("hi", None)
    check_content("", {"a": 1})
    check_content("", None, ["f1"])
    for text in ("", " \n"):
        for data in (None, dict[str, str]()):
            with pytest.raises(BadRequest):
                check_content(text, data)


def test_a_message_does_not_say_too_much() -> None:
    with pytest.raises(TooLarge):
        check_content("x" * 16_385, None)
    with pytest.raises(TooLarge):
        check_patch(UNSET, {"a": "x" * 8_192})
    with pytest.raises(BadRequest):
        check_patch(UNSET, UNSET)
