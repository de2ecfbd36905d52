"""Answers about people are decoded as the server writes them."""

from __future__ import annotations

import msgspec

from tidings_client.people import Preferences, Profile, Profiles


def test_what_is_left_out_has_its_default() -> None:
    assert msgspec.json.decode(b"{}", type=Preferences) == Preferences("anybody", "anybody")


def test_a_field_of_a_newer_server_is_ignored() -> None:
    raw = b'{"profiles":[{"user_id":"bob","name":"Bob","avatar_url":null,"mood":"fine"}],"more":1}'
    assert msgspec.json.decode(raw, type=Profiles) == Profiles([Profile("bob", "Bob", None)])
