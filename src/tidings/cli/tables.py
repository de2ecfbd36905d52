"""`tidings tables`: create, check, back up and copy the tables, and mark tables put back from a copy.

`backup` works while nodes run. `copy` moves them to another adapter while no node runs. `restored` gives the tables a
new store epoch, so that no client continues with numbers from after the copy. docs/run/operations.md lists the steps
around both.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidings.cli.verb import Verb, checked, load, print_report, run
from tidings.clock import Clock
from tidings.config.settings import Settings, tables_url
from tidings.config.values import TABLES_SCHEMES, SettingsError, store
from tidings.stores.tables import schemes

if TYPE_CHECKING:
    from tidings.stores.tables.copying import Copied, Tell


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


def _copy(arguments: argparse.Namespace) -> int:
    settings = load(arguments).settings
    source, target = (_place(settings, word) for word in (arguments.source, arguments.target))
    report = run(copy(source, target, _teller() if sys.stderr.isatty() else None))
    if arguments.json:
        print_report(report, is_json=True)
    else:
        _show_copy(report)
    return 0 if report.is_equal else 1


def _place(settings: Settings, word: str) -> Settings:
    """The settings with other tables: a URL, or the word for those in the data folder."""
    return replace(settings, tables=checked("the tables", store(schemes.DEFAULT, TABLES_SCHEMES), word))


async def copy(source: Settings, target: Settings, tell: Tell | None = None) -> Copied:
    """Copy the tables of one place to another, and compare both. Raises SettingsError or StoreError."""
    from tidings.errors import Unavailable
    from tidings.node.stores import open_tables, require_tables, tables_adapter
    from tidings.stores.keyspace.embedded_folder import running_socket
    from tidings.stores.tables.copying import copy_tables
    from tidings.telemetry.metrics import Metrics

    if tables_url(source) == tables_url(target):
        raise SettingsError("both are the same tables; name two places")
    for settings in (source, target):
        folder = tables_adapter(settings).folder(tables_url(settings))
        if folder is not None and running_socket(folder) is not None:
            raise Unavailable(f"a node runs on {folder}: stop all nodes, then copy")
    if tables_adapter(source).folder(tables_url(source)) is not None:
        require_tables(source)
    await tables_adapter(target).create(tables_url(target), Clock())
    old = await open_tables(source, Clock(), Metrics())
    try:
        new = await open_tables(target, Clock(), Metrics())
        try:
            return await copy_tables(old, new, tell or (lambda table, rows: None))
        finally:
            await new.close()
    finally:
        await old.close()


def _teller() -> Tell:
    """Show the progress on one line of the terminal."""
    return lambda table, rows: print(f"\r\033[K{table}: {rows:,}", end="", file=sys.stderr, flush=True)


def _show_copy(report: Copied) -> None:
    for one in report.tables:
        mark = "=" if one.is_equal else f"DIFFERS: {one.target_rows:,} {one.target_checksum}"
        print(f"{one.table:<20} {one.rows:>12,}  {one.checksum}  {mark}")
    print(f"conversations compared one by one: {report.conversations:,}, messages: {report.messages:,}")
    if report.is_resumed:
        print("an earlier copy was continued")
    for conversation_id in report.different:
        print(f"different: {conversation_id}")
    print("both sides are equal" if report.is_equal else "the two sides DIFFER: was a node running? Copy again.")


def _copy_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help=f"the tables to copy: {schemes.examples()}")
    parser.add_argument("target", metavar="TO", help="the tables to make; they must be empty, or an unfinished copy")


def _backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="write the copy to this file, which must not exist")


VERBS: dict[str, Verb] = {
    "tables create": Verb("create the tables that are missing", partial(_check, True)),
    "tables check": Verb("compare the tables with the schema of this version", partial(_check, False)),
    "tables backup": Verb("copy the tables to a file while nodes run", _backup, _backup_arguments),
    "tables copy": Verb("copy the tables to another store, and compare both", _copy, _copy_arguments),
    "tables restored": Verb("mark the tables as put back from a copy, before the first start on them", _restored),
}
