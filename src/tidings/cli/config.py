"""`tidings config`: print every setting with its value and its source. Secrets and passwords are masked."""

from __future__ import annotations

import argparse

from tidings.cli.verb import Verb, load, show
from tidings.config import settings as config


def _config(arguments: argparse.Namespace) -> int:
    loaded = load(arguments)
    table = {row.path: (config.shown(row, loaded.settings), loaded.sources[row.path]) for row in config.rows()}
    fields = {path: {"value": value, "source": source} for path, (value, source) in table.items()}
    path_width, source_width = max(map(len, table)), max(len(source) for _, source in table.values())
    form = f"{{:<{path_width}}}  {{:<{source_width}}}  {{}}"  # values stand last: some are long
    show(arguments, fields, *(form.format(path, source, _text(value)) for path, (value, source) in table.items()))
    return 0


def _text(value: str | int | bool | None) -> str:
    return "-" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


VERBS: dict[str, Verb] = {
    "config": Verb("print every setting and where its value comes from", _config),
}
