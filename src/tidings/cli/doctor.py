"""`tidings doctor`: print each problem with its exact fix, for people or as JSON. Exit code 1 when something is wrong.

The checks are in operators/doctor. Settings that cannot be read are the first finding.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from tidings.bounds import DOCTOR_CENSUS_S
from tidings.cli.verb import Verb, checked, fields_of, load, print_json
from tidings.config.values import SettingsError, duration_s

if TYPE_CHECKING:
    from tidings.operators.doctor.census import Census
    from tidings.operators.doctor.report import Report
    from tidings.stores.findings import Finding

_WORD = {"ok": "ok", "unknown": "?", "advice": "advice", "wrong": "WRONG"}
_KEYS_SHOWN = 5


def _doctor(arguments: argparse.Namespace) -> int:
    budget_s = 0 if arguments.budget == "0" else checked("--budget", duration_s, arguments.budget)
    report = _examine(arguments, budget_s)
    if arguments.json:
        print_json({"is_healthy": report.is_healthy, **fields_of(report)})
    else:
        _print(report)
    return 0 if report.is_healthy else 1


def _examine(arguments: argparse.Namespace, budget_s: float) -> Report:
    import asyncio

    from tidings.clock import Clock
    from tidings.operators.doctor.examination import examine
    from tidings.operators.doctor.report import Report
    from tidings.stores.findings import wrong

    try:
        loaded = load(arguments)
    except SettingsError as error:
        return Report(
            findings=(
                wrong("settings.read", str(error), "correct the setting; `tidings config --help` lists every setting"),
            )
        )
    return asyncio.run(examine(loaded.settings, loaded.sources, Clock(), census_s=budget_s))


def _print(report: Report) -> None:
    for census in report.keyspace:
        _print_census(census)
    has_several = len({finding.where for finding in report.findings if finding.where}) > 1
    for finding in report.findings:
        _print_finding(finding, has_several)
    counts = Counter(finding.level for finding in report.findings)
    print(f"\n{counts['wrong']} wrong, {counts['advice']} advice, {counts['unknown']} unknown, {counts['ok']} ok")


def _print_finding(finding: Finding, has_several: bool) -> None:
    """With several servers every finding names its server; with one server only a bad finding does."""
    where = f" [{finding.where}]" if finding.where and (has_several or finding.level != "ok") else ""
    print(f"{_WORD[finding.level]:<7} {finding.name:<21} {finding.says}{where}")
    if finding.fix:
        print(f"{'':7} {'':21} fix: {finding.fix}")


def _print_census(census: Census) -> None:
    print(f"{census.where}: {census.keys_seen} of {census.keys_total} keys read in {census.took_s:.1f} s")
    print(f"  {'family':<12}{'keys':>10}{'KiB':>11}{'entries':>9}{'B/entry':>9}  encoding")
    for kind in census.kinds:
        encodings = " ".join(f"{name}:{count}" for name, count in sorted(kind.encodings.items()))
        sizes = f"{kind.keys:>10}{kind.bytes / 1024:>11.0f}{kind.entries_mean:>9.1f}{kind.bytes_each:>9.0f}"
        print(f"  {kind.family:<12}{sizes}  {encodings}")
    for title, keys in (("biggest", census.biggest), (f"hottest ({census.heat})", census.hottest)):
        for key in keys[:_KEYS_SHOWN]:
            normal = "normal" if key.is_normal else "NOT NORMAL"
            size = f"{key.bytes / 1024:.0f} KiB, {key.entries} entries, {key.encoding}"
            print(f"  {title}: {key.key} ({key.family}) {size}, {normal}")
    print()


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        default=f"{DOCTOR_CENSUS_S:g}s",
        metavar="TIME",
        help="read the keys of each server for this time at most; 0 = do not read them (default %(default)s)",
    )


VERBS: dict[str, Verb] = {
    "doctor": Verb("check settings, stores and machine; print each problem with its fix", _doctor, _arguments),
}
