"""`tidings tables backup` copies the SQLite tables while nodes run; `tidings tables restored` marks tables put back.

No client goes on with numbers from after the copy then. The steps around the two are in docs/operations.md.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from tidings.cli_verb import Verb, load, print_report
from tidings.config import Settings
from tidings.config_values import SettingsError


@dataclass(frozen=True)
class Backup:
    """What `tidings tables backup` made."""

    tables: str
    copy: str
    bytes: int


@dataclass(frozen=True)
class Restored:
    """What `tidings tables restored` did."""

    tables: str
    store_epoch: str


def _backup(arguments: argparse.Namespace) -> int:
    from tidings.opening import require_tables, sqlite_path
    from tidings.stores.sqlite_backup import back_up

    settings = load(arguments).settings
    if settings.tables.startswith("dynamodb:"):
        raise SettingsError("DynamoDB makes its own copies: turn on point-in-time recovery of its tables")
    require_tables(settings)
    path, to = sqlite_path(settings), Path(arguments.to).expanduser().absolute()
    print_report(Backup(str(path), str(to), back_up(path, to)), arguments.json)
    return 0


def _restored(arguments: argparse.Namespace) -> int:
    settings = load(arguments).settings
    print_report(_renew(settings), arguments.json)
    return 0


def _renew(settings: Settings) -> Restored:
    import asyncio

    from tidings.clock import Clock
    from tidings.errors import Unavailable
    from tidings.opening import require_tables, sqlite_path
    from tidings.stores import sqlite_backup
    from tidings.stores.keyspace_folder import running_socket

    if running_socket(settings.data) is not None:
        raise Unavailable(f"a node runs on {settings.data}: stop it, put the tables back, and only then mark them")
    if settings.tables.startswith("dynamodb:"):
        from tidings.stores import tables_dynamodb

        return Restored(settings.tables, asyncio.run(tables_dynamodb.renew_epoch(settings.tables, Clock())))
    require_tables(settings)
    path = sqlite_path(settings)
    return Restored(str(path), sqlite_backup.renew_epoch(path, Clock()))


def _to_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="the file to make; it must not exist")


VERBS: dict[str, Verb] = {
    "tables backup": Verb("copy the SQLite tables to a file while nodes run", _backup, _to_argument),
    "tables restored": Verb("mark tables that were put back from a copy", _restored),
}
