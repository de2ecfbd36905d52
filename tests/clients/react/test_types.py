"""The types of the React hooks name everything that the package exports, and nothing else."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

SOURCE = ROOT / "clients" / "react" / "src"
EXPORTED = re.compile(r"^export (?:declare )?(?:async )?(?:function|class|const) (\w+)", re.MULTILINE)


def test_every_export_has_its_type() -> None:
    names = [set(EXPORTED.findall((SOURCE / name).read_text("utf-8"))) for name in ("index.js", "index.d.ts")]
    assert names[0] == names[1] and {"useInbox", "useConversation", "useThread", "useUnread", "useTyping"} <= names[0]
