"""The verbs of the cold tier: run the archiver now, see how it stands, bring a conversation's texts back.

They work on the stores themselves, beside running nodes or without any: the same lease keeps them from archiving at the
same time. A bar on a terminal, one line otherwise, or JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tidings import config_values
from tidings.cli_verb import Verb, checked, load, on_stores, print_json, print_report

if TYPE_CHECKING:
    from tidings.messaging.archive import Archived
    from tidings.messaging.archiving import Archiving, Pass

T = TypeVar("T")
_MIB = 1024 * 1024


def _with(arguments: argparse.Namespace, work: Callable[[Archiving], Awaitable[T]]) -> T:
    """Texts never move to a folder that nobody has."""
    from tidings.opening import require_folder

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
    if arguments.json:
        print_json(_fields(done.archived) | _fields(done.rechecked))
    else:
        print(_summary(done))
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
    """On stderr, so that what is printed stays clean."""
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

        def told(archived: Archived) -> None:
            progress.update(task, completed=archived.conversations, messages=archived.messages)

        yield told


def _status(arguments: argparse.Namespace) -> int:
    settings = load(arguments).settings
    status = _with(arguments, lambda archiving: archiving.status())
    after = "off" if settings.archive.after_days is None else settings.archive.after_days
    where = {"blobs": config_values.mask_url(settings.blobs), "after_days": after}
    if arguments.json:
        print_json(where | _fields(status))
    else:
        for name, value in where.items():
            print(f"{name}: {value}")
        print_report(status, False)
    return 1 if status.damaged else 0


def _restore(arguments: argparse.Namespace) -> int:
    conversation_id = checked("--conversation", config_values.safe_id, arguments.conversation)
    done = _with(arguments, lambda archiving: archiving.restore(conversation_id))
    if arguments.json:
        print_json(_fields(done))
    else:
        lost = f", {len(done.damaged)} segments cannot be read: {'; '.join(done.damaged)}" if done.damaged else ""
        print(f"restored {done.restored} messages of {conversation_id}{lost}")
    return 1 if done.damaged else 0


def _conversation(arguments: argparse.Namespace) -> str | None:
    given: str | None = arguments.conversation
    return None if given is None else str(checked("--conversation", config_values.safe_id, given))


def _fields(value: Any) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--conversation", help="this conversation only, from its beginning (default: all that is due)")


def _named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--conversation", required=True, help="the conversation whose texts come back into its rows")


VERBS: dict[str, Verb] = {
    "archive run": Verb("move old texts to blobs now, and clear up there", _run, _one),
    "archive status": Verb("how the cold tier stands, and what is damaged", _status),
    "archive restore": Verb("bring the texts of a conversation back into the tables", _restore, _named),
}
