from __future__ import annotations

import msgspec
import pytest

from tidings.protocol.bodies import ConversationPatch
from tidings.protocol.rule_bodies import NewInvite, ReportVerdict


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"slow_s":-1}', ConversationPatch),
        (b'{"visibility":"public"}', ConversationPatch),
        (b'{"retention_s":1}', ConversationPatch),
        (b'{"uses":0}', NewInvite),
        (b'{"role":"owner"}', NewInvite),
        (b'{"action":"hide"}', ReportVerdict),
        (b'{"action":"ban","for":1}', ReportVerdict),
    ],
)
def test_a_body_that_is_not_of_the_documented_form_is_refused(body: bytes, kind: type) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=kind)


def test_null_ends_slow_mode_and_retention() -> None:
    patch = msgspec.json.decode(b'{"slow_s":null,"retention_s":null}', type=ConversationPatch)
    assert (patch.slow_s, patch.retention_s) == (None, None)
