"""`tidings config`: print every setting with its value and its source. Secrets and passwords are masked."""

from __future__ import annotations

import argparse

from tidings.cli.verb import Verb, load, print_json
from tidings.config import settings as config

_VALUE_WIDTH = 34


def _config(arguments: argparse.Namespace) -> int:
    loaded = load(arguments)
    table = {row.path: (config.shown(row, loaded.settings), loaded.sources[row.path]) for row in config.rows()}
    if arguments.json:
        print_json({path: {"value": value, "source": source} for path, (value, source) in table.items()})
        return 0
    for path, (value, source) in table.items():
        text = "-" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)
        print(f"{path:<18} {text:<{_VALUE_WIDTH}} {source}")
    return 0


VERBS: dict[str, Verb] = {
    "config": Verb("print every setting and where its value comes from", _config),
}
