from __future__ import annotations

import msgspec
import pytest

from tidings.protocol import bodies as bodies_module
from tidings.protocol.bodies import ConversationPatch, NewConversation, ProfilePut, RequestBody


def test_an_absent_field_of_a_patch_differs_from_null() -> None:
    patch = msgspec.json.decode(b'{"name":null}', type=ConversationPatch)
    assert patch.name is None and patch.avatar_url is msgspec.UNSET


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "https://a b", 'https://a"b', "//x"])
def test_an_avatar_is_a_web_address(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": "group", "avatar_url": url}, NewConversation)


def test_every_request_body_refuses_an_unknown_field_by_name() -> None:
    bodies = [kind for kind in vars(bodies_module).values() if is_request_body(kind)]
    assert len(bodies) >= 10
    for kind in bodies:
        with pytest.raises(msgspec.ValidationError, match="unknown field `from_the_future`"):
            msgspec.json.decode(b'{"from_the_future":1}', type=kind)


def is_request_body(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, RequestBody) and not kind.__name__.startswith("_")


def test_every_body_with_a_name_refuses_one_that_cannot_be_seen() -> None:
    for kind in (ConversationPatch, ProfilePut):
        with pytest.raises(msgspec.ValidationError, match="`name`"):
            msgspec.json.decode(b'{"name":"\\u200b"}', type=kind)
    with pytest.raises(msgspec.ValidationError, match="`name`"):
        msgspec.json.decode(b'{"kind":"group","name":" \\n"}', type=NewConversation)
