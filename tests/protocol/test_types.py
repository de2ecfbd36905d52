from __future__ import annotations

import pytest

from tidings.protocol.types import is_name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\u00a0\u2003",
        "\u200b",
        "\u200d",
        "a\nb",
        "a\0b",
        "\u202eevil",
        "a\u2066b",
        "Ann\u200b",
        "\ufeffAnn",
        "\u2028",
    ],
)
def test_a_name_is_visible_and_disguises_nothing(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize("name", ["Ann", "علی‌رضا", "👩‍👩‍👧", "José", "张伟", "Ann B. (she)"])
def test_names_of_all_scripts_are_taken(name: str) -> None:
    assert is_name(name)
