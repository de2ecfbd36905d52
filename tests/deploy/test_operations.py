"""docs/run/operations.md says nothing that is not there: metrics, verbs, files, and sums that add up."""

from __future__ import annotations

import re

from tests.support.deploy_files import ROOT
from tidings.cli.main import VERBS
from tidings.telemetry.metrics import Metrics

PAGE = (ROOT / "docs" / "run" / "operations.md").read_text("utf-8")
NEAR = 0.02  # figures are rounded for people
TIMES = "\N{MULTIPLICATION SIGN}"


def metric_names() -> set[str]:
    """As Prometheus would see them, the series of histograms and counters by their family too."""
    lines = Metrics().render().decode().splitlines()
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    return families | {line.split()[0].partition("{")[0] for line in lines if not line.startswith("#")}


def sums() -> list[tuple[str, float]]:
    """(expression, what the page says it is) of the arithmetic of the capacity model."""
    block = PAGE.partition("## Toward 500 million users")[2].split("```")[1].replace(TIMES, "*").replace(",", "")
    found = re.findall(r"^  .*?  +([\d. */+-]+?) += ([\d.]+)$", block, re.MULTILINE)
    assert len(found) == block.count(" = "), "a line that is not understood is not checked"
    return [(expression, float(said)) for expression, said in found]


def test_every_metric_that_is_named_exists() -> None:
    named = set(re.findall(r"\b(tidings_[a-z_]+|process_[a-z_]+)\b", PAGE.replace("prefix=tidings_", "")))
    assert len(named) > 10
    assert sorted(named - metric_names()) == []


def test_every_verb_that_is_named_exists() -> None:
    named = [words.split() for words in re.findall(r"`tidings ([a-z]+(?: [a-z]+)?)", PAGE)]
    unknown = [words for words in named if not any(" ".join(words[:size]) in VERBS for size in (1, 2))]
    assert named and unknown == []


def test_the_arithmetic_adds_up() -> None:
    assert len(sums()) >= 20
    wrong = [(expression, said) for expression, said in sums() if abs(_value(expression) / said - 1) > NEAR]
    assert wrong == []


def test_the_model_uses_what_is_measured() -> None:
    measured = (ROOT / "docs" / "inside" / "benchmarks.md").read_text("utf-8")
    (opened,) = re.findall(r"^\| inbox: CPU per open, 5,000 conversations \| (\d+) us", measured, re.MULTILINE)
    (sent,) = re.findall(r"^\| send: CPU per message, closed loop \| ([\d.]+) us", measured, re.MULTILINE)
    assert f"cores for it, {opened} us each" in PAGE and f"({round(float(sent))} us of CPU each" in PAGE
    (rate,) = re.findall(r"a node does ([\d,]+) messages a second", PAGE)
    assert f"694,443 / {int(rate.replace(',', '')) // 2:,} " in PAGE


def _value(expression: str) -> float:
    assert re.fullmatch(r"[\d. */+-]+", expression), expression
    return float(eval(expression))


def test_the_table_of_sizes_follows_from_what_it_assumes() -> None:
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) (MB|GB) \| ([\d.]+) GB \|", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for row in rows:
        users, per_s, sockets = (int(text.replace(",", "")) for text in row[:3])
        keyspace = float(row[3]) * {"MB": 1e6, "GB": 1e9}[row[4]]
        assert per_s == round(users * 40 * 3 / 86_400)
        assert sockets == users // 5
        assert abs(keyspace / (users * 7_078) - 1) < 0.05
        assert abs(float(row[5]) * 1e9 - users * 40 * 271) < 0.05e9
