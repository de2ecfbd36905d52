"""`tidings top`: draw a live view on a terminal until q or Ctrl-C.

Without a terminal, or with --once or --json, it prints one view and ends. The rest is in operators/top.
"""

from __future__ import annotations

import argparse
import sys

from tidings.cli.verb import Verb, checked, load
from tidings.config.values import duration_s


def _top(arguments: argparse.Namespace) -> int:
    interval_s = checked("--interval", duration_s, arguments.interval)
    settings = load(arguments).settings
    from tidings.operators.top import live

    is_once = arguments.once or arguments.json or not sys.stdout.isatty()
    return live.run(settings, arguments.urls, interval_s, show=print if is_once else None, is_json=arguments.json)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("urls", nargs="*", metavar="URL", help="nodes to watch (default: the node of these settings)")
    parser.add_argument("--interval", default="2s", metavar="TIME", help="time between two views (default 2s)")
    parser.add_argument("--once", action="store_true", help="print one view and end; exit code 1 when no node answers")


VERBS: dict[str, Verb] = {
    "top": Verb("watch nodes live: rates, latency by stage, slow commands", _top, _arguments),
}
