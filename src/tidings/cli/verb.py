"""Verbs: one row of the command line each, with the parts that all verbs share: settings, stores and output.

A mistake of the user is a SettingsError: one line on stderr and exit code 2. Only modules of cli/ print.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tidings.config import settings as config
from tidings.config.settings import Loaded
from tidings.config.values import SettingsError

if TYPE_CHECKING:
    from tidings.node.graph import Core

T = TypeVar("T")
BY = "command line"  # the actor in the audit stream


class Verb(NamedTuple):
    """One command. `arguments` adds its own flags; every verb also gets the flags of all settings, and --json."""

    about: str
    run: Callable[[argparse.Namespace], int]
    arguments: Callable[[argparse.ArgumentParser], Any] = lambda parser: None
    has_json: bool = True


# --- settings and stores --------------------------------------------------------------------------


def load(arguments: argparse.Namespace) -> Loaded:
    return config.load(flags(arguments), os.environ, Path.cwd(), arguments.config)


def flags(arguments: argparse.Namespace) -> dict[str, str]:
    given = vars(arguments).items()
    return {name.removeprefix("set:"): value for name, value in given if name.startswith("set:") and value is not None}


def checked(flag: str, parse: Callable[[str], Any], value: str) -> Any:
    """Parse the value of a flag; the error names the flag."""
    try:
        return parse(value)
    except SettingsError as error:
        raise SettingsError(f"bad value for {flag}: {error}") from None


def run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    from tidings.gateway.server import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def on_stores(arguments: argparse.Namespace, work: Callable[[Core], Awaitable[T]]) -> T:
    """Do the work with the stores open, beside running nodes or without any; write its audit events at the end."""

    async def opened() -> T:
        from tidings.node.graph import open_core

        async with open_core(load(arguments).settings, is_guest=True) as core:
            try:
                return await work(core)
            finally:
                await core.limiting.audit.loop.stop()

    return run(opened())


# --- output ---------------------------------------------------------------------------------------


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show(arguments: argparse.Namespace, value: Any, *lines: str) -> None:
    """Print the value as JSON, or the lines for a person."""
    if arguments.json:
        print_json(value)
    else:
        for line in lines:
            print(line)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a struct, ready for JSON."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields


def print_report(report: Any, is_json: bool) -> None:
    """Print every field of a struct or a dict on a line of its own, or as JSON."""
    if is_json:
        print_json(fields_of(report))
    else:
        for name, value in fields_of(report).items():
            is_time = name.endswith("_at") and isinstance(value, int)
            print(f"{name}: {utc(value) if is_time else _plain(value)}")


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        items = (item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in value)
        return "".join(f"\n  {item}" for item in items) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def utc(at_ms: int, precision: str = "seconds") -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
