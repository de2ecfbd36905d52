"""`tidings tables`: create, check and copy the tables, and mark tables put back from a copy.

`backup` works while nodes run. After `restored` no client goes on with numbers from after the copy: the mark is a new
store epoch. docs/run/operations.md lists the steps around both.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import msgspec

from tidings.cli.verb import Verb, load, print_report, run
from tidings.clock import Clock
from tidings.config.settings import Settings, tables_url
from tidings.config.values import SettingsError


class Checked(msgspec.Struct, frozen=True):
    """The result of `create` and `check`."""

    tables: str
    store_epoch: str
    is_ok: bool
    differences: list[str] = []


class Backup(msgspec.Struct, frozen=True):
    """The result of `backup`."""

    tables: str
    copy: str
    bytes: int


class Restored(msgspec.Struct, frozen=True):
    """The result of `restored`."""

    tables: str
    store_epoch: str


def _check(create: bool, arguments: argparse.Namespace) -> int:
    report = run(check(load(arguments).settings, create=create))
    print_report(report, arguments.json)
    return 0 if report.is_ok else 1


async def check(settings: Settings, *, create: bool) -> Checked:
    """Compare the tables with the schema, after creating what is missing if `create`."""
    from tidings.node.stores import open_tables, require_tables, tables_adapter
    from tidings.telemetry.metrics import Metrics

    adapter, url, clock = tables_adapter(settings), tables_url(settings), Clock()
    if create:
        await adapter.create(url, clock)
    elif adapter.folder(url) is not None:
        require_tables(settings)
    differences = await adapter.check(url, clock)
    if differences:
        return Checked(adapter.name(url), "", is_ok=False, differences=differences)
    tables = await open_tables(settings, clock, Metrics())
    try:
        await tables.ping()
        return Checked(adapter.name(url), await tables.accounts.store_epoch(), is_ok=True)
    finally:
        await tables.close()


def _backup(arguments: argparse.Namespace) -> int:
    from tidings.node.stores import require_tables, tables_adapter

    settings = load(arguments).settings
    adapter, url = tables_adapter(settings), tables_url(settings)
    to = Path(arguments.to).expanduser().absolute()
    try:
        if adapter.folder(url) is not None:
            require_tables(settings)
        size = adapter.back_up(url, to)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    print_report(Backup(adapter.name(url), str(to), size), arguments.json)
    return 0


def _restored(arguments: argparse.Namespace) -> int:
    print_report(_renew(load(arguments).settings), arguments.json)
    return 0


def _renew(settings: Settings) -> Restored:
    from tidings.errors import Unavailable
    from tidings.node.stores import require_tables, tables_adapter
    from tidings.stores.keyspace.embedded_folder import running_socket

    if running_socket(settings.data) is not None:
        raise Unavailable(f"a node runs on {settings.data}: stop it, put the tables back, and only then mark them")
    adapter, url = tables_adapter(settings), tables_url(settings)
    if adapter.folder(url) is not None:
        require_tables(settings)
    return Restored(adapter.name(url), run(adapter.renew_epoch(url, Clock())))


def _backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="write the copy to this file, which must not exist")


VERBS: dict[str, Verb] = {
    "tables create": Verb("create the tables that are missing", partial(_check, True)),
    "tables check": Verb("compare the tables with what this version needs", partial(_check, False)),
    "tables backup": Verb("copy the tables to a file while nodes run", _backup, _backup_arguments),
    "tables restored": Verb("mark tables that were put back from a copy", _restored),
}
