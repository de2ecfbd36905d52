from __future__ import annotations

import msgspec
import pytest

from tidings.bounds import MEMBERS_BULK_MAX
from tidings.protocol import bodies, own_bodies, people_bodies, rule_bodies
from tidings.protocol.bodies import ConversationPatch, NewConversation, NewMembers, RequestBody, RulesBody
from tidings.protocol.people_bodies import ProfilePut


def test_an_absent_field_of_a_patch_differs_from_null() -> None:
    patch = msgspec.json.decode(b'{"name":null}', type=ConversationPatch)
    assert patch.name is None and patch.avatar_url is msgspec.UNSET


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "https://a b", 'https://a"b', "//x"])
def test_an_avatar_is_a_web_address(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": "group", "avatar_url": url}, NewConversation)


def test_every_request_body_refuses_an_unknown_field_by_name() -> None:
    modules = (bodies, own_bodies, people_bodies, rule_bodies)
    found = [kind for module in modules for kind in vars(module).values() if is_request_body(kind)]
    assert len(found) >= 15
    for kind in found:
        with pytest.raises(msgspec.ValidationError, match="unknown field `from_the_future`"):
            msgspec.json.decode(b'{"from_the_future":1}', type=kind)


def is_request_body(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, RequestBody)


def test_every_body_with_a_name_refuses_one_that_cannot_be_seen() -> None:
    for kind in (ConversationPatch, ProfilePut):
        with pytest.raises(msgspec.ValidationError, match="`name`"):
            msgspec.json.decode(b'{"name":"\\u200b"}', type=kind)
    with pytest.raises(msgspec.ValidationError, match="`name`"):
        msgspec.json.decode(b'{"kind":"group","name":" \\n"}', type=NewConversation)


def test_only_rules_that_differ_from_the_defaults_are_told() -> None:
    assert msgspec.json.encode(RulesBody(slow_s=30)) == b'{"slow_s":30}'


@pytest.mark.parametrize("user_ids", [[], ["{a}"], ["a"] * (MEMBERS_BULK_MAX + 1)])
def test_new_members_are_some_users_and_not_too_many(user_ids: list[str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"user_ids": user_ids}, NewMembers)
