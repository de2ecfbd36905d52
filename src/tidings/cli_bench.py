"""`tidings bench`: load on any server by its URL, or on a node that is started for it, and what it cost.

A bar on a terminal while it runs, then a table; --json for programs, --plot for a picture. CPU per operation is there
when the server runs on this machine and may be looked at. The trials are in benchmarks/.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.benchmarks.trials_names import ABOUT, CLIENTS, OPTIONS
from tidings.cli_verb import Verb, checked, load, print_json
from tidings.config import Settings
from tidings.config_values import SettingsError, safe_id, web_url

if TYPE_CHECKING:
    from tidings.benchmarks.trials import Outcome, Wanted

SECONDS = 10.0
_OPTIONS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "in_flight": ("--in-flight", int, "messages that a sender has under way (default 4)"),
    "rate": ("--rate", float, "messages a second in all, on time, instead of as many as possible"),
    "members": ("--members", int, "of the channel (default 200)"),
    "conversations": ("--conversations", int, "in each inbox (default 200)"),
    "messages": ("--messages", int, "in the conversation (default 500)"),
    "conversation_id": ("--conversation", str, "with URL: a conversation with archived messages"),
    "user_id": ("--user", str, "with URL: a member of it"),
}


def _arguments(name: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", metavar="URL", help="a running server (default: a node for the time)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of the measurement (default {SECONDS:g})")
    parser.add_argument("--clients", type=int, default=CLIENTS[name], help=f"(default {CLIENTS[name]})")
    for option in OPTIONS.get(name, ()):
        flag, kind, about = _OPTIONS[option]
        parser.add_argument(flag, dest=option, type=kind, help=about)
    parser.add_argument(
        "--api-key", metavar="KEY", help="with URL: a server key, REST only (else auth.secret or --dev)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .png or .svg")


def _bench(name: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments).settings
    wanted = _wanted(arguments)
    from rich.console import Console

    from tidings.benchmarks import plots
    from tidings.benchmarks.progress import bars
    from tidings.benchmarks.trials_table import run_alone, run_on

    if arguments.plot is not None:
        plots.check_plot(arguments.plot)
    target = None if arguments.url is None else _target(arguments, settings)
    try:
        with bars(Console(stderr=True)) as shown:
            found = run_alone(name, wanted, shown) if target is None else run_on(name, target, wanted, shown)
    except RuntimeError as error:  # the server refused, or did not do what it should: no figure then
        print(f"tidings: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if arguments.plot is not None:
        plots.picture_of(found, arguments.plot)
    _print(found, arguments.json)
    return 0


def _wanted(arguments: argparse.Namespace) -> Wanted:
    from tidings.benchmarks.trials import Wanted

    given = {name: value for name, value in vars(arguments).items() if name in _OPTIONS and value is not None}
    for name, value in {**given, "seconds": arguments.seconds, "clients": arguments.clients}.items():
        if not isinstance(value, str) and not 0 < value < math.inf:
            raise SettingsError(f"bad value for --{name.replace('_', '-')}: it must be a number above 0")
    for name in ("conversation_id", "user_id"):
        if name in given:
            checked(_OPTIONS[name][0], safe_id, given[name])
    if ("conversation_id" in given) != ("user_id" in given):
        raise SettingsError("--conversation and --user go together")
    return Wanted(seconds=arguments.seconds, clients=arguments.clients, **given)


def _target(arguments: argparse.Namespace, settings: Settings) -> Any:
    from tidings.benchmarks.people import people_of
    from tidings.benchmarks.processes import parts_behind
    from tidings.benchmarks.target import Target, require_answer

    url = str(checked("URL", web_url, arguments.url)).rstrip("/")
    require_answer(url)
    return Target(url, people_of(url, settings, arguments.api_key), parts_behind(url))


def _print(found: Outcome, is_json: bool) -> None:
    import msgspec

    if is_json:
        print_json(msgspec.to_builtins(found))
        return
    from rich.console import Console

    from tidings.benchmarks.table import table_of

    Console(width=None if sys.stdout.isatty() else 110).print(table_of(found))
    for name, value in found.facts.items():
        print(f"{name}: {value:,.10g}")


VERBS: dict[str, Verb] = {
    f"bench {name}": Verb(about, partial(_bench, name), partial(_arguments, name)) for name, about in ABOUT.items()
}
