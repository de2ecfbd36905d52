"""Archivers that race each other: stopped in the middle, killed in the middle, started twice on the same stores.

Each is `tidings archive run` as a process of its own, told to archive at once. An archiver may
never lose a text or bring a deleted text back; the judge checks this (I17). Archivers race as one of the faults, and
once more before a run is judged.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tidings_proof.sabotage.launcher import PARENT
from tidings_proof.world.processes import environment

if TYPE_CHECKING:
    from tidings_proof.faults.schedule import Step
    from tidings_proof.world.world import World

RUN_S = 60.0
_WORDS = ("--", "archive", "run", "--archive-after-days", "0")


def lacking(world: World) -> str | None:
    from tidings.cli.main import VERBS

    if "archive run" not in VERBS:
        return "this Tidings has no archiver"
    return None if world.is_ours else "the stores are not ours"


async def race(world: World, step: Step) -> None:
    first = await _start(world)
    await asyncio.sleep(0.4 + step.degree)
    if first.returncode is None:
        with suppress(ProcessLookupError):
            first.send_signal(signal.SIGSTOP if step.target < 0.5 else signal.SIGKILL)
    second = await _start(world)
    await _end(second)
    if first.returncode is None:
        with suppress(ProcessLookupError):
            first.send_signal(signal.SIGCONT)
    await _end(first)


async def run_once(world: World) -> int:
    """To the end; its exit code."""
    return await _end(await _start(world))


async def _start(world: World) -> asyncio.subprocess.Process:
    settings = world.settings
    env = {
        "TIDINGS_KEYSPACE": settings.keyspace,
        "TIDINGS_TABLES": settings.tables,
        "TIDINGS_BLOBS": settings.blobs,
        "TIDINGS_AUTH_SECRET": settings.auth.secret or "",
        "TIDINGS_DATA": str(settings.data),
        PARENT: str(os.getpid()),
    }
    with (world.place.folder / "archive.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tidings_proof.sabotage.launcher", *world.place.plants, *_WORDS),
            env=environment(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


async def _end(process: asyncio.subprocess.Process) -> int:
    try:
        async with asyncio.timeout(RUN_S):
            return await process.wait()
    except TimeoutError:
        os.kill(process.pid, signal.SIGKILL)
        return await process.wait()
