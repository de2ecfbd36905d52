"""The types of the React hooks name everything that the package exports, and nothing else.

The names of the client's own types are compared in clients/js/test/docs.test.js.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support.paths import ROOT

SOURCE = ROOT / "clients" / "react" / "src"
EXPORTED = re.compile(r"^export (?:declare )?(?:async )?(?:function|class|const) (\w+)", re.MULTILINE)


def test_every_export_has_its_type() -> None:
    names = [set(EXPORTED.findall((SOURCE / name).read_text("utf-8"))) for name in ("index.js", "index.d.ts")]
    assert names[0] == names[1] and {"useInbox", "useConversation", "useThread", "useUnread", "useTyping"} <= names[0]


def test_the_types_of_the_client_are_typescript() -> None:
    if (tsc := shutil.which("tsc")) is None:
        pytest.skip("tsc is missing: npm install --global typescript")
    files = sorted(str(file) for file in (ROOT / "clients" / "js" / "src").glob("*.d.ts"))
    checked = subprocess.run(
        [tsc, "--noEmit", "--strict", "--target", "es2022", *files], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
