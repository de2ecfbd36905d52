"""`tidings bench versus`: the words of the command, and what it prints.

A rival that cannot run here is left out and named, with the way to get it. The result file is one of the benchmarks',
so `tidings bench report` shows its targets with theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.cli.verb import Verb, print_json
from tidings.config.values import SettingsError
from tidings_proof.bench.names import result_file

if TYPE_CHECKING:
    from tidings_proof.bench.results import Result
    from tidings_proof.bench.versus.rivals import Rival, Sizes

ROUNDS = 2
WORKS = ("send", "rate", "history", "inbox", "fanout", "idle")
RIVALS = ("socketio", "textbook", "ejabberd")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="WORKS", help=f"some works alone: {','.join(WORKS)}")
    parser.add_argument("--rivals", metavar="NAMES", help=f"beside Tidings, some of: {','.join(RIVALS)}")
    parser.add_argument("--rounds", type=int, help=f"of each work (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, help="length of each measurement (default 2)")
    parser.add_argument("--connections", type=int, help="idle connections of each server (default 2000)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: they show that it runs, nothing more")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw it: .svg")
    parser.add_argument("--out", type=result_file, metavar="FILE", help="results (default bench-results/versus.json)")


def _versus(arguments: argparse.Namespace) -> int:
    works = chosen("--only", arguments.only, WORKS)
    keys = chosen("--rivals", arguments.rivals, RIVALS)
    sizes, rounds = sizes_of(arguments), ROUNDS if arguments.rounds is None else arguments.rounds
    if rounds < 1:
        raise SettingsError("bad value for --rounds: it must be a number above 0")
    if arguments.picture is not None and arguments.picture.suffix != ".svg":
        raise SettingsError(f"bad value for --picture: {arguments.picture.name} does not end in .svg")
    from tidings_proof.bench.results import FOLDER, write
    from tidings_proof.bench.versus import picture
    from tidings_proof.bench.versus.everyone import EVERYONE
    from tidings_proof.bench.versus.rivals import there

    rivals, lacks = there([rival for rival in EVERYONE if rival.key in ("tidings", *keys)])
    for name, lack in lacks.items():
        _say(f"{name} is left out: {lack}")
    found = compare(rivals, works, rounds, sizes, lacks, is_quick=arguments.quick)
    if not arguments.quick or arguments.out is not None:
        write(found, arguments.out or FOLDER / "versus.json")
    if arguments.picture is not None:
        picture.write(found, arguments.picture)
    _print(found, rivals, arguments.json)
    return 1 if found.settings["failed"] else 0


def chosen(flag: str, given: str | None, known: Sequence[str]) -> list[str]:
    """The words of a list with commas; all of them without one. Raises SettingsError."""
    words = list(known) if given is None else [word for word in given.split(",") if word]
    for word in words:
        if word not in known:
            raise SettingsError(f"bad value for {flag}: {word!r} is none of {', '.join(known)}")
    return words


def sizes_of(arguments: argparse.Namespace) -> Sizes:
    from tidings_proof.bench.versus.rivals import QUICK, Sizes

    given = {name: value for name in ("seconds", "connections") if (value := getattr(arguments, name)) is not None}
    for name, value in given.items():
        if not 0 < value < 1e6:
            raise SettingsError(f"bad value for --{name}: it must be a number above 0")
    return dataclasses.replace(QUICK if arguments.quick else Sizes(), **given)


def compare(
    rivals: Sequence[Rival], works: Sequence[str], rounds: int, sizes: Sizes, lacks: dict[str, str], *, is_quick: bool
) -> Result:
    import msgspec

    from tidings_proof.bench.results import Findings, result_of
    from tidings_proof.bench.versus import table, turns
    from tidings_proof.bench.versus.works import rows_of

    outcome = turns.run(rivals, works, rounds, sizes, _say)
    medians = turns.medians(outcome.found)
    findings = Findings(
        claim="CPU of all processes of each server; in brackets how many times ours",
        settings={
            **dataclasses.asdict(sizes),
            "rounds": rounds,
            "rows": rows_of(sizes),
            "servers": {rival.key: rival.name for rival in rivals},
            "stores": {rival.name: rival.stores for rival in rivals},
            "left_out": lacks,
            "failed": outcome.failed,
        },
        figures=turns.figures_of(outcome.found),
        columns=["", *(rival.name for rival in rivals)],
        rows=table.rows(medians, rivals, sizes),
        facts={"the largest difference between two rounds of a figure, %": round(turns.spread_percent(outcome.found))},
        checks=[] if is_quick else table.checks(medians),
    )
    return msgspec.structs.replace(result_of("versus", {}, findings), command=_command(works, rounds, is_quick))


def _command(works: Sequence[str], rounds: int, is_quick: bool) -> str:
    only = [] if tuple(works) == WORKS else ["--only", ",".join(works)]
    more = [] if rounds == ROUNDS else ["--rounds", str(rounds)]
    return " ".join(["tidings bench versus", *only, *more, *(["--quick"] if is_quick else [])])


def _say(line: str) -> None:
    print(f"versus: {line}", file=sys.stderr, flush=True)


def _print(found: Result, rivals: Sequence[Rival], is_json: bool) -> None:
    import msgspec

    from tidings_proof.bench.report.table import show

    if is_json:
        print_json(msgspec.to_builtins(found))
        return
    show(found)
    for rival in rivals:
        print(f"  {rival.name}: {rival.stores}.")
    for name, lack in found.settings["left_out"].items():
        print(f"  {name} is left out: {lack}.")
    for what, why in found.settings["failed"].items():
        print(f"  failed: {what}: {why}")


VERBS: dict[str, Verb] = {
    "bench versus": Verb("Tidings beside other servers, the same work in turns", _versus, _arguments)
}
