"""`tidings bench NAME [URL]`: one benchmark, `all` of those with targets, or the `report` of their results.

A terminal shows a bar while a benchmark runs, then a table. Programs read --json, and --plot draws a picture. A figure
of CPU exists when the server runs on this machine and its processes are visible. A benchmark with targets also writes
its result file into bench-results/.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.cli.verb import Verb, checked, load, print_json
from tidings.config.settings import Settings
from tidings.config.values import SettingsError, safe_id, web_url
from tidings_proof.bench.names import BENCHMARKS, FLAGS, Benchmark, Sizes, result_file
from tidings_proof.bench.versus import cli as versus

if TYPE_CHECKING:
    from tidings_proof.bench.results import Findings, Result
    from tidings_proof.bench.target.target import Target

MINUTES = 15.0


def _arguments(name: str, parser: argparse.ArgumentParser) -> None:
    benchmark = BENCHMARKS[name]
    on_url = benchmark.sizes_on_url
    if on_url is not None:
        parser.add_argument("url", nargs="?", metavar="URL", help="a running server (default: nodes of its own)")
    for size in dict.fromkeys((*benchmark.sizes, *(on_url or ()))):
        flag, kind, about = FLAGS[size]
        choices = benchmark.only if size == "only" else None
        parser.add_argument(flag, dest=size, type=kind, choices=choices, help=f"{about} ({_defaults(benchmark, size)})")
    if on_url is not None:
        parser.add_argument(
            "--api-key", metavar="KEY", help="with URL: a server key, REST only (else auth.secret or --dev)"
        )
    if benchmark.has_plot:
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .png or .svg")
    parser.add_argument("--out", type=result_file, metavar="FILE", help=f"result file (default {_default_out(name)})")


def _defaults(benchmark: Benchmark, size: str) -> str:
    """The defaults of a size as the help shows them."""
    alone, on_url = benchmark.sizes.get(size), (benchmark.sizes_on_url or {}).get(size)
    if size not in benchmark.sizes:
        return "with URL" if on_url is None else f"with URL; default {on_url:g}"
    if size not in (benchmark.sizes_on_url or {}):
        return _default(alone) if benchmark.sizes_on_url is None else f"without URL; {_default(alone)}"
    return (
        _default(alone)
        if alone == on_url
        else f"{_default(alone)}; with URL {'none' if on_url is None else f'{on_url:g}'}"
    )


def _default(value: float | None) -> str:
    return "default: all" if value is None else f"default {value:g}"


def _default_out(name: str) -> str:
    return f"bench-results/{name}.json, without URL" if BENCHMARKS[name].has_targets else "none"


def _bench(name: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments).settings
    given = given_sizes(name, arguments)
    from tidings_proof.bench.report import plots
    from tidings_proof.bench.results import FOLDER, result_of, write

    url: str | None = getattr(arguments, "url", None)
    plot: Path | None = getattr(arguments, "plot", None)
    if plot is not None:
        plots.check_plot(plot)
        if url is None and not BENCHMARKS[name].has_runs:
            raise SettingsError(f"--plot of `tidings bench {name}` needs a URL")
    target = None if url is None else _target(url, arguments.api_key, settings)
    try:
        found = result_of(name, given, run(name, given, target))
    except RuntimeError as error:  # the server refused, or gave a wrong answer: then there is no figure
        print(f"tidings: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if plot is not None:
        plots.picture_of(found, plot)
    if arguments.out is not None or (url is None and BENCHMARKS[name].has_targets):
        write(found, arguments.out or FOLDER / f"{name}.json")
    _print(found, arguments.json)
    return 0


def run(name: str, given: Sizes, target: Target | None = None) -> Findings:
    """Run one benchmark on the target, or on nodes of its own."""
    from rich.console import Console

    from tidings_proof.bench.report.progress import bars
    from tidings_proof.bench.trials.table import run_alone, run_on

    benchmark = BENCHMARKS[name]
    if target is None and benchmark.has_targets:
        claim = import_module(f"tidings_proof.bench.{benchmark.room}.{name}")
        found: Findings = claim.run(argparse.Namespace(**benchmark.sizes | given))
        return found
    with bars(Console(stderr=True)) as shown:
        if target is None:
            return run_alone(name, benchmark.sizes | given, shown)
        assert benchmark.sizes_on_url is not None
        return run_on(name, target, benchmark.sizes_on_url | given, shown)


def given_sizes(name: str, arguments: argparse.Namespace) -> Sizes:
    """The sizes that the command line names, checked. Raises SettingsError."""
    benchmark, url = BENCHMARKS[name], getattr(arguments, "url", None)
    known: Sizes = benchmark.sizes if url is None else benchmark.sizes_on_url or {}
    given = {size: value for size in FLAGS if (value := getattr(arguments, size, None)) is not None}
    for size, value in given.items():
        flag = FLAGS[size][0]
        if size not in known:
            raise SettingsError(f"{flag} of `tidings bench {name}` needs {'a' if url is None else 'no'} URL")
        if not isinstance(value, str) and not 0 < value < math.inf:
            raise SettingsError(f"bad value for {flag}: it must be a number above 0")
    for size in {"conversation_id", "user_id"} & given.keys():
        checked(FLAGS[size][0], safe_id, given[size])
    if ("conversation_id" in given) != ("user_id" in given):
        raise SettingsError("--conversation and --user go together")
    return given


def _target(url: str, api_key: str | None, settings: Settings) -> Target:
    from tidings_proof.bench.load.people import people_of
    from tidings_proof.bench.target.processes import parts_behind
    from tidings_proof.bench.target.target import Target, require_answer

    url = str(checked("URL", web_url, url)).rstrip("/")
    require_answer(url)
    return Target(url, people_of(url, settings, api_key), parts_behind(url))


def _print(found: Result, is_json: bool) -> None:
    import msgspec

    from tidings_proof.bench.report.table import show

    if is_json:
        print_json(msgspec.to_builtins(found))
    else:
        show(found)


# --- all of them, and their report ----------------------------------------------------------------


def _all_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="tiny sizes: they show that each one runs, nothing more")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the results go (default bench-results)")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="begin nothing after these (default %(default)g)"
    )


def _all(arguments: argparse.Namespace) -> int:
    from tidings_proof.bench.everything import run_all
    from tidings_proof.bench.results import FOLDER

    return run_all(arguments.out or FOLDER, is_quick=arguments.quick, minutes=arguments.minutes)


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="of results (default bench-results)")
    parser.add_argument(
        "--write", action="store_true", help="into the README, docs/inside and docs/pictures of a clone"
    )


def _report(arguments: argparse.Namespace) -> int:
    import msgspec

    from tidings_proof.bench.report.report import load as load_results
    from tidings_proof.bench.report.report import table, write_pages
    from tidings_proof.bench.results import FOLDER

    results = load_results(arguments.folder or FOLDER)
    if arguments.write:
        root = Path.cwd()
        print("\n".join(f"wrote {file.relative_to(root)}" for file in write_pages(results, root)))
    elif arguments.json:
        print_json(msgspec.to_builtins(results))
    else:
        print("\n".join(table(results)))
    return 0


VERBS: dict[str, Verb] = {
    f"bench {name}": Verb(one.about, partial(_bench, name), partial(_arguments, name))
    for name, one in BENCHMARKS.items()
}
VERBS["bench all"] = Verb(
    "every benchmark with targets, then those met and missed", _all, _all_arguments, has_json=False
)
VERBS["bench report"] = Verb("the results as a table, or written into the pages", _report, _report_arguments)
VERBS |= versus.VERBS
