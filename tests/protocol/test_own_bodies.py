from __future__ import annotations

import msgspec
import pytest

from tidings.protocol.own_bodies import NewScheduled


@pytest.mark.parametrize(
    "body", [b'{"conversation_id":"c"}', b'{"conversation_id":"c","send_at":-1}', b'{"send_at":1}']
)
def test_a_scheduled_message_needs_a_conversation_and_a_time(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=NewScheduled)
