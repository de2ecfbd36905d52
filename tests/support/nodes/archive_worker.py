"""An archiver as a process of its own that may be told to kill itself (SIGKILL) at its nth step.

`python -m tests.support.nodes.archive_worker DATA KEYSPACE TABLES BLOBS KILL_AT` runs one pass. A step is everything
that it asks of the blobs or writes to the tables, counted before and after. With KILL_AT 0 it lives. It prints how many
messages it moved, and exits with 1 when another archiver took over.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.config.settings import Settings
from tidings.errors import Conflict
from tidings.node import graph
from tidings.node.stores import Stores

STEPS = ("put", "get", "delete", "move", "advance", "put_recheck", "remove_recheck", "take_fence")


class Mortal:
    """Counts the steps of what it wraps, and dies at one of them."""

    def __init__(self, wrapped: Any, step: Callable[[], None]) -> None:
        self._wrapped = wrapped
        self._step = step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name not in STEPS:
            return found

        async def counted(*args: Any, **fields: Any) -> Any:
            self._step()
            answer = await found(*args, **fields)
            self._step()
            return answer

        return counted


async def work(settings: Settings, kill_at: int) -> int:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async with graph.open_core(settings) as plain:
        stores = {field.name: getattr(plain, field.name) for field in dataclasses.fields(Stores)}
        archive: Any = Mortal(plain.tables.archive, step)
        tables = dataclasses.replace(plain.tables, archive=archive)
        core = graph.build(Stores(**{**stores, "blobs": Mortal(plain.blobs, step), "tables": tables}))
        try:
            done = await core.cold.archiving.run()
        except Conflict:
            return 1
    sys.stdout.write(f"{done.archived.messages}\n")
    return 0


def main(data: str, keyspace: str, tables: str, blobs: str, kill_at: str) -> int:
    settings = dataclasses.replace(Settings(), data=Path(data), keyspace=keyspace, tables=tables, blobs=blobs)
    return asyncio.run(work(settings, int(kill_at)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
