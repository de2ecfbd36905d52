"""`tidings user erase` and `tidings import`: data of people that goes, and data that comes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tidings.cli.verb import BY, Verb, checked, on_stores, print_report
from tidings.config.values import safe_user_id

if TYPE_CHECKING:
    from tidings.messaging.lifecycle.erasing import Job
    from tidings.messaging.transfer.importing import Imported
    from tidings.node.graph import Core


def _erase(arguments: argparse.Namespace) -> int:
    user_id = str(checked("--user", safe_user_id, arguments.user))

    async def work(core: Core) -> Job:
        job = await core.erasing.begin(user_id, arguments.texts)
        core.limiting.audit.acted("user.erase", BY, user_id=user_id, detail=job.job_id)
        return await core.erasing.run(job.job_id)

    print_report(on_stores(arguments, work), arguments.json)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from tidings.messaging.transfer.importing import Importing
    from tidings.messaging.transfer.sources import SOURCES

    users: dict[str, str] = {}
    if arguments.map is not None:
        rows = (line.split(",") for line in Path(arguments.map).read_text("utf-8").splitlines() if line.strip())
        users = {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}

    async def work(core: Core) -> Imported:
        importing = Importing(core.tables, core.keyspace, core.scripts, core.clock)
        return await importing.run(SOURCES[arguments.source](Path(arguments.file), users), is_dry=arguments.dry_run)

    print_report(on_stores(arguments, work), arguments.json)
    return 0


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", choices=("slack", "jsonl"), help="the product that made the file")
    parser.add_argument("file", help="the export: a zip, a folder or a file")
    parser.add_argument("--map", help="a CSV file: the id there, the user id here")
    parser.add_argument("--dry-run", action="store_true", help="count, and write nothing")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the id of the person")
    parser.add_argument(
        "--texts", choices=("remove", "keep"), default="remove", help="what happens to their messages (default remove)"
    )


VERBS: dict[str, Verb] = {
    "import": Verb("import conversations from another product", _import, _import_arguments),
    "user erase": Verb("erase a person: texts, profile, devices, preferences", _erase, _arguments),
}
