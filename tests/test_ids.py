"""Ids: what may stand in a key, a path and a file name."""

from __future__ import annotations

import pytest

from tidings.ids import is_id, is_message_id, is_user_id


@pytest.mark.parametrize("text", ["auth0|5f7c", "google-oauth2|1", "a+b@example.com", "urn:user:7"])
def test_ids_of_identity_providers_are_ids_of_users_and_of_nothing_else(text: str) -> None:
    assert is_user_id(text) and not is_message_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a b", "a{b}", "a/b", "a\n", "é", "x" * 129])
def test_what_means_something_in_a_key_or_a_path_is_no_id(text: str) -> None:
    assert not is_id(text) and not is_user_id(text) and not is_message_id(text)
