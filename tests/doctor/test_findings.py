"""What a check answers, and in which order it is told."""

from __future__ import annotations

import re
from pathlib import Path

from tidings.doctor.findings import Report, advice, human_bytes, ok, quantile, unknown, worst_last, wrong


def test_what_is_wrong_stands_last_and_makes_a_report_unhealthy() -> None:
    findings = worst_last([wrong("a.x", "x", "do"), ok("b.y", "y"), unknown("d.w", "w"), advice("c.z", "z", "do")])
    assert [finding.level for finding in findings] == ["ok", "unknown", "advice", "wrong"]
    assert not Report(findings=findings).is_healthy
    assert Report(findings=findings[:3]).is_healthy


def test_a_finding_knows_its_family() -> None:
    assert ok("keyspace.clock", "").family == "keyspace"


def test_quantiles_are_measured_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert quantile([7.0], 0.99) == 7.0


def test_sizes_are_told_in_the_nearest_unit() -> None:
    assert [human_bytes(n) for n in (0, 1023, 1024, 5 * 1024**3)] == ["0 bytes", "1023 bytes", "1.0 KiB", "5.0 GiB"]
    assert human_bytes(2 * 1024**4) == "2.0 TiB"


def test_the_page_explains_every_finding_and_no_other() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    sources = [*(root / "src" / "tidings" / "doctor").glob("*.py"), root / "src" / "tidings" / "cli_doctor.py"]
    text = "".join(file.read_text("utf-8") for file in sources)
    told = set(re.findall(r'"((?:settings|host|tables|blobs|keyspace)\.[a-z_]+)"', text))
    told |= {f"{family}.check" for family in re.findall(r'"(host|tables|blobs|keyspace)"', text)}
    page = (root / "docs" / "doctor.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", page, re.MULTILINE)) == told
