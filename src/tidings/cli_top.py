"""`tidings top`: the live view on a terminal, one look with --once, JSON for programs with --json.

On a terminal it draws until q or Ctrl-C; where the output is no terminal, or with --once or --json, it prints one look.
Everything else is in top/.
"""

from __future__ import annotations

import argparse
import sys

from tidings.cli_verb import Verb, checked, load
from tidings.config_values import duration_s


def _top(arguments: argparse.Namespace) -> int:
    interval_s = checked("--interval", duration_s, arguments.interval)
    settings = load(arguments).settings
    from tidings.top import live

    is_once = arguments.once or arguments.json or not sys.stdout.isatty()
    return live.run(settings, arguments.urls, interval_s, show=print if is_once else None, is_json=arguments.json)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("urls", nargs="*", metavar="URL", help="nodes to watch (default: the one of these settings)")
    parser.add_argument("--interval", default="2s", metavar="TIME", help="between two looks (default 2s)")
    parser.add_argument("--once", action="store_true", help="print one look and end; 1 when no node answers")


VERBS: dict[str, Verb] = {
    "top": Verb("watch nodes live: rates, latency by stage, slow commands", _top, _arguments),
}
