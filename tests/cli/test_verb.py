"""The parts that every verb shares: flags, values and output."""

from __future__ import annotations

import argparse

import msgspec
import pytest

from tidings.cli.verb import checked, fields_of, flags, print_report, run, utc
from tidings.config.values import SettingsError, whole


class Report(msgspec.Struct):
    users: int
    is_ok: bool
    wrong: list[str]
    leader: str | None = None


def test_flags_are_the_settings_that_were_given() -> None:
    given = argparse.Namespace(**{"set:port": "9", "set:host": None, "json": True})
    assert flags(given) == {"port": "9"}


def test_a_bad_value_names_its_flag() -> None:
    assert checked("--count", whole(1, 9), "3") == 3
    with pytest.raises(SettingsError, match="bad value for --count: "):
        checked("--count", whole(1, 9), "many")


def test_a_report_is_printed_a_field_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(Report(2, True, ["alice"]), False)
    assert capsys.readouterr().out == "users: 2\nis_ok: yes\nwrong: \n  alice\nleader: -\n"
    print_report(Report(0, False, []), False)
    assert "is_ok: no\nwrong: none" in capsys.readouterr().out
    print_report({"ended_at": 0, "left": ({"n": 1},)}, False)
    assert capsys.readouterr().out == 'ended_at: 1970-01-01T00:00:00Z\nleft: \n  {"n": 1}\n'


def test_a_report_is_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(2, True, [])
    print_report(report, True)
    assert msgspec.json.decode(capsys.readouterr().out) == fields_of(report)


def test_work_runs_to_its_end() -> None:
    async def work() -> int:
        return 7

    assert run(work()) == 7


def test_times_are_of_utc() -> None:
    assert utc(1_700_000_000_123) == "2023-11-14T22:13:20Z"
    assert utc(1_700_000_000_123, "milliseconds") == "2023-11-14T22:13:20.123Z"
