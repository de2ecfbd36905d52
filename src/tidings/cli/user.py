"""`tidings import`, `tidings export` and `tidings user`: bring data in, take data out, and erase a person."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tidings.cli.verb import BY, Verb, checked, on_stores, print_report, show
from tidings.config.values import safe_user_id

if TYPE_CHECKING:
    from tidings.messaging.lifecycle.erasing import Job
    from tidings.messaging.transfer.importing import Imported
    from tidings.node.graph import Core


def _erase(arguments: argparse.Namespace) -> int:
    from tidings.gateway.http.lifecycle.jobs import state_of

    user_id = str(checked("--user", safe_user_id, arguments.user))

    async def work(core: Core) -> Job:
        job = await core.erasing.begin(user_id, arguments.texts, is_own=True)
        core.limiting.audit.acted("user.erase", BY, user_id=user_id, detail=job.job_id)
        return await core.erasing.run(job.job_id)

    print_report(state_of(on_stores(arguments, work)), arguments.json)
    return 0


PRODUCTS = ("slack", "mattermost", "rocketchat", "zulip", "jsonl")


def _export(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from tidings.messaging.transfer.packing import to_folder

    async def work(core: Core) -> int:
        exporting, audit = core.exporting, core.limiting.audit
        if arguments.conversation is not None:
            pieces = await exporting.conversation(arguments.conversation)
        elif arguments.user is not None:
            pieces = exporting.user(checked("--user", safe_user_id, arguments.user), is_everywhere=True)
        else:
            pieces = exporting.all()
        audit.acted("export", BY, user_id=arguments.user or "", detail=arguments.conversation or "all")
        return await to_folder(pieces, Path(arguments.to))

    _print_exported(arguments, on_stores(arguments, work))
    return 0


def _export_user(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from tidings.messaging.transfer.packing import create, to_zip

    user_id = str(checked("--user", safe_user_id, arguments.user))

    async def work(core: Core) -> int:
        core.limiting.audit.acted("export", BY, user_id=user_id, detail="zip")
        size = 0
        with create(Path(arguments.to)) as out:
            async for chunk in to_zip(core.exporting.user(user_id, is_everywhere=True)):
                size += out.write(chunk)
        return size

    _print_exported(arguments, on_stores(arguments, work))
    return 0


def _print_exported(arguments: argparse.Namespace, size: int) -> None:
    show(arguments, {"to": arguments.to, "bytes": size}, f"{size:,} bytes are in {arguments.to}")


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--all", action="store_true", help="export everything")
    what.add_argument("--conversation", metavar="C", help="export one conversation")
    what.add_argument("--user", metavar="U", help="export all that one person wrote and set")
    parser.add_argument("--to", required=True, metavar="DIR", help="write to this folder, which must not exist")


def _export_user_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the id of the person")
    parser.add_argument("--to", required=True, metavar="FILE", help="write the zip to this file, which must not exist")


def _import(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from tidings.messaging.transfer.sources.open import SOURCES

    users: dict[str, str] = {}
    if arguments.map is not None:
        rows = (line.split(",") for line in Path(arguments.map).read_text("utf-8").splitlines() if line.strip())
        users = {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}

    async def work(core: Core) -> Imported:
        return await core.importing.run(
            SOURCES[arguments.source](Path(arguments.file), users), is_dry=arguments.dry_run
        )

    print_report(on_stores(arguments, work), arguments.json)
    return 0


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", choices=PRODUCTS, help="the product that made the export")
    parser.add_argument("file", help="the export: a zip, a folder or a file")
    parser.add_argument("--map", help="a CSV file; each line has a user id of the other product and the user id here")
    parser.add_argument("--dry-run", action="store_true", help="read and count everything, but write nothing")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the id of the person")
    parser.add_argument(
        "--texts",
        choices=("remove", "keep"),
        default="remove",
        help="remove or keep their messages (default remove)",
    )


VERBS: dict[str, Verb] = {
    "import": Verb("import conversations from another product", _import, _import_arguments),
    "export": Verb("export everything, a conversation or a person as JSON lines", _export, _export_arguments),
    "user export": Verb("export all that a person wrote and set, as a zip", _export_user, _export_user_arguments),
    "user erase": Verb("erase a person: texts, profile, devices, preferences", _erase, _arguments),
}
