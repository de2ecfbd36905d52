from __future__ import annotations

from tidings.config.sections import Auth, setting


def test_a_default_text_is_parsed_as_a_given_one_is() -> None:
    assert setting("5", int, "a number").default == 5
    assert setting(None, int, "a number").default is None
    assert Auth().role_claim == "role"
