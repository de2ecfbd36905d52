from __future__ import annotations

import msgspec

from tidings.protocol.rules import RulesBody


def test_only_rules_that_differ_from_the_defaults_are_told() -> None:
    assert msgspec.json.encode(RulesBody(slow_s=30)) == b'{"slow_s":30}'
