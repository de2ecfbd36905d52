"""The order of the findings in a report, and the page that explains each of them."""

from __future__ import annotations

import re
from pathlib import Path

from tidings.operators.doctor.report import Report, worst_last
from tidings.stores.findings import advice, ok, unknown, wrong


def test_what_is_wrong_stands_last_and_makes_a_report_unhealthy() -> None:
    findings = worst_last([wrong("a.x", "x", "do"), ok("b.y", "y"), unknown("d.w", "w"), advice("c.z", "z", "do")])
    assert [finding.level for finding in findings] == ["ok", "unknown", "advice", "wrong"]
    assert not Report(findings=findings).is_healthy
    assert Report(findings=findings[:3]).is_healthy


def test_the_page_explains_every_finding_and_no_other() -> None:
    root = Path(__file__).resolve().parents[3]
    sources = [
        *(root / "src" / "tidings" / "operators" / "doctor").glob("*.py"),
        *(root / "src" / "tidings" / "stores").rglob("examination.py"),
        root / "src" / "tidings" / "cli" / "doctor.py",
    ]
    text = "".join(file.read_text("utf-8") for file in sources)
    told = set(re.findall(r'"((?:settings|host|tables|blobs|keyspace)\.[a-z_]+)"', text))
    told |= {f"{family}.check" for family in re.findall(r'"(host|tables|blobs|keyspace)"', text)}
    page = (root / "docs" / "run" / "doctor.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", page, re.MULTILINE)) == told
