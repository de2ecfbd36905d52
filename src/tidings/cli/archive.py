"""`tidings archive`: move old texts to blobs now, show the state of the cold tier, restore a conversation's texts.

The verbs open the stores themselves, with or without running nodes. One lease keeps two archivers from working at the
same time. Progress is a bar on a terminal, one line elsewhere, or JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tidings.cli.verb import Verb, checked, fields_of, load, on_stores, print_json, print_report, show
from tidings.config import values as config_values

if TYPE_CHECKING:
    from tidings.messaging.archive.mover import Archived
    from tidings.messaging.archive.schedule import Archiving, Pass

T = TypeVar("T")
_MIB = 1024 * 1024


def _with(arguments: argparse.Namespace, work: Callable[[Archiving], Awaitable[T]]) -> T:
    """Do the work on the archive. Blobs in a folder require that the folder exists: texts must not move to a typo."""
    from tidings.node.stores import require_folder

    settings = load(arguments).settings
    if settings.blobs == "file":
        require_folder(settings)
    return on_stores(arguments, lambda core: work(core.cold.archiving))


def _run(arguments: argparse.Namespace) -> int:
    conversation_id = _conversation(arguments)

    async def work(archiving: Archiving) -> Pass:
        if not sys.stderr.isatty() or conversation_id is not None:
            return await archiving.run(conversation_id=conversation_id)
        with _bar(await archiving.waiting()) as on_progress:
            return await archiving.run(on_progress=on_progress)

    done = _with(arguments, work)
    show(arguments, fields_of(done.archived) | fields_of(done.rechecked), _summary(done))
    return 1 if done.archived.failed or done.rechecked.damaged else 0


def _summary(done: Pass) -> str:
    archived, rechecked = done.archived, done.rechecked
    words = [
        f"archived {archived.messages} messages of {archived.conversations} conversations",
        f"in {archived.segments} segments ({archived.bytes / _MIB:.1f} MiB)",
    ]
    line = " ".join(words)
    for count, what in (
        (rechecked.rewritten, "rewritten"),
        (rechecked.deleted, "deleted"),
        (archived.failed, "failed"),
    ):
        line += f", {count} {what}" if count else ""
    return line + (f", {len(rechecked.damaged)} damaged: {'; '.join(rechecked.damaged)}" if rechecked.damaged else "")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[Archived], None]]:
    """A progress bar on stderr: stdout holds the result alone."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("archiving"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} conversations, {task.fields[messages]} messages"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("archiving", total=total, messages=0)

        def show(archived: Archived) -> None:
            progress.update(task, completed=archived.conversations, messages=archived.messages)

        yield show


def _status(arguments: argparse.Namespace) -> int:
    settings = load(arguments).settings
    status = _with(arguments, lambda archiving: archiving.status())
    after = "off" if settings.archive.after_days is None else settings.archive.after_days
    where = {"blobs": config_values.mask_url(settings.blobs), "after_days": after}
    if arguments.json:
        print_json(where | fields_of(status))
    else:
        for name, value in where.items():
            print(f"{name}: {value}")
        print_report(status, False)
    return 1 if status.damaged else 0


def _restore(arguments: argparse.Namespace) -> int:
    conversation_id = checked("--conversation", config_values.safe_id, arguments.conversation)
    done = _with(arguments, lambda archiving: archiving.restore(conversation_id))
    lost = f", {len(done.damaged)} segments cannot be read: {'; '.join(done.damaged)}" if done.damaged else ""
    show(arguments, fields_of(done), f"restored {done.restored} messages of {conversation_id}{lost}")
    return 1 if done.damaged else 0


def _conversation(arguments: argparse.Namespace) -> str | None:
    given: str | None = arguments.conversation
    return None if given is None else str(checked("--conversation", config_values.safe_id, given))


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conversation", help="archive this conversation only, all of it (default: every conversation that is due)"
    )


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--conversation", required=True, help="the conversation whose texts come back into the tables")


VERBS: dict[str, Verb] = {
    "archive run": Verb("move old texts to blobs now, and delete unused objects", _run, _run_arguments),
    "archive status": Verb("print the state of the cold tier, and its damaged objects", _status),
    "archive restore": Verb("bring the texts of a conversation back into the tables", _restore, _restore_arguments),
}
