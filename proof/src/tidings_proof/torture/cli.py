"""`tidings torture`: attack a Tidings of one's own for a while, and say whether every promise was kept.

Only flags count here: the stores of a tidings.toml or of the environment are never touched by accident. Progress goes
to stderr, a moving line on a terminal; the verdict to stdout. Exit code 0: kept, 1: broken, 2: the words were wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.cli.verb import Verb, checked, flags, print_json
from tidings.config.values import SettingsError, nearest

if TYPE_CHECKING:
    from tidings.config.settings import Settings
    from tidings_proof.torture.run import Beat, Options, Outcome

STORES = (
    "sqlite+valkey",
    "sqlite+embedded",
    "sqlite+cluster",
    "postgres+valkey",
    "postgres+embedded",
    "postgres+cluster",
    "dynamodb+valkey",
    "dynamodb+embedded",
    "dynamodb+cluster",
)
_QUIET_S = 10  # between two lines of progress where there is no terminal


def _torture(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return _list(arguments.json)
    options, settings = _options(arguments), _settings(arguments)
    with _Progress(options) as progress:
        outcome = _run(options, settings, arguments.keep, progress)
    _tell(outcome, arguments)
    return 0 if outcome.is_kept else 1


def _run(options: Options, settings: Settings, keep: str | None, progress: _Progress) -> Outcome:
    import asyncio
    import signal

    from tidings.gateway.server import loop_factory
    from tidings_proof.torture.run import torture

    async def work() -> Outcome:
        running = asyncio.current_task()
        assert running is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)  # what was started is ended
        return await torture(options, settings, on_beat=progress.beat, keep=Path(keep) if keep else None)

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _tell(outcome: Outcome, arguments: argparse.Namespace) -> None:
    from tidings_proof.torture import report, report_html

    if arguments.report:
        Path(arguments.report).write_text(report_html.as_html(outcome), "utf-8")
    if arguments.json:
        print_json(report.as_json(outcome))
    else:
        print(report.as_text(outcome))
        if arguments.report:
            print(f"  report: {arguments.report}")


def _list(is_json: bool) -> int:
    from tidings_proof.faults.faults import FAULTS
    from tidings_proof.sabotage.plants import PLANTS

    faults = {name: fault.about for name, fault in FAULTS.items()}
    plants = {name: plant.about for name, plant in PLANTS.items()}
    if is_json:
        print_json({"faults": faults, "plants": plants})
        return 0
    for title, names in (("faults", faults), ("plants: mistakes that the checker must find (--plant)", plants)):
        print(f"{title}\n" + "\n".join(f"  {name:<20} {about}" for name, about in names.items()))
    return 0


# --- the words --------------------------------------------------------------------------------------


def _options(arguments: argparse.Namespace) -> Options:
    from tidings.clock import Clock
    from tidings_proof.faults.faults import FAULTS
    from tidings_proof.sabotage.plants import PLANTS
    from tidings_proof.torture.run import Options

    seed = arguments.seed if arguments.seed is not None else int(Clock().random_id(3), 16)
    return Options(
        seed=checked("--seed", int, str(seed)),
        seconds=_number("--seconds", arguments.seconds),
        faults=None if arguments.faults is None else _names("--faults", arguments.faults, FAULTS),
        nodes=int(_number("--nodes", arguments.nodes)),
        users=max(3, int(_number("--users", arguments.users))),
        rate=_number("--rate", arguments.rate or _usual_rate(arguments)),
        stores=arguments.stores,
        addresses=tuple(part for part in (arguments.at or "").split(",") if part),
        plants=_names("--plant", arguments.plant or "none", PLANTS),
    )


def _usual_rate(arguments: argparse.Namespace) -> str:
    """DynamoDB Local does a few hundred requests a second, whatever is asked of it; running nodes have limits."""
    if arguments.at:
        return "10"
    return "15" if arguments.stores.startswith("dynamodb") else "40"


def _number(flag: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise SettingsError(f"bad value for {flag}: {text!r} is not a number") from None
    if not 0 < number < math.inf:
        raise SettingsError(f"bad value for {flag}: it must be a number above 0")
    return number


def _names(flag: str, text: str, known: dict[str, Any]) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name and name != "none")
    for name in names:
        if name not in known:
            raise SettingsError(f"bad value for {flag}: unknown {name!r}{nearest(name, known)}")
    return names


def _settings(arguments: argparse.Namespace) -> Settings:
    from tidings.config import settings as config

    return config.load(flags(arguments), {}, Path("/nonexistent")).settings


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="plays the same plan of faults again (default: a random one)")
    parser.add_argument("--seconds", default="60", help="how long faults come (default 60); then all heals")
    parser.add_argument("--faults", help="only these, comma-separated; none = no faults (default: all that can be)")
    parser.add_argument("--list", action="store_true", help="list the faults and the plants, and do nothing")
    parser.add_argument("--nodes", default="2", help="nodes to start (default 2)")
    parser.add_argument("--users", default="8", help="users with two devices each (default 8)")
    parser.add_argument("--rate", help="messages a second, of all together (default 40; DynamoDB Local 15, --at 10)")
    parser.add_argument("--stores", choices=STORES, default=STORES[0], help=f"what to start (default {STORES[0]})")
    parser.add_argument("--at", metavar="URL,URL", help="running nodes on loopback instead; needs --auth-secret")
    parser.add_argument("--report", metavar="FILE", help="also write the verdict as a page with a picture")
    parser.add_argument("--keep", metavar="DIR", help="keep history, logs and stores of the run in this new folder")
    parser.add_argument("--plant", metavar="NAME", help="a mistake for the checker to find; --list names them")


# --- progress ---------------------------------------------------------------------------------------


class _Progress:
    """A moving line on a terminal, a line now and then elsewhere."""

    def __init__(self, options: Options) -> None:
        self._seconds = options.seconds
        self._live: Any = None
        self._beats = 0

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live("starting", console=Console(stderr=True), refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def beat(self, beat: Beat, counts: dict[str, int]) -> None:
        self._beats += 1
        phase = f"{beat.at_s:4.0f} of {self._seconds:.0f} s" if beat.at_s < self._seconds else "healing and looking"
        line = (
            f"{phase}  {beat.acknowledged:>4} acknowledged/s  sent {counts['sent']:,}  got {counts['received']:,}  "
            f"faults {counts['faults']}  now {', '.join(beat.under_way) or '-'}"
        )
        if self._live is not None:
            self._live.update(line)
        elif self._beats % _QUIET_S == 0:
            print(line, file=sys.stderr, flush=True)


VERBS: dict[str, Verb] = {
    "torture": Verb("attack a Tidings of one's own and check every promise", _torture, _arguments),
}
