"""What every verb of the command line is made of: its row, its settings, its answers. The cli_* modules stand on it.

A user's mistake is a SettingsError: one line and exit code 2. These modules and cli.py are the only ones that print.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tidings import config
from tidings.config import Loaded
from tidings.config_values import SettingsError

if TYPE_CHECKING:
    from tidings.wiring import Core

T = TypeVar("T")
BY = "command line"  # who did it, in the audit stream


class Verb(NamedTuple):
    """One command. `arguments` adds its own words; the settings and --json are added for all."""

    about: str
    run: Callable[[argparse.Namespace], int]
    arguments: Callable[[argparse.ArgumentParser], Any] = lambda parser: None
    has_json: bool = True


def load(arguments: argparse.Namespace) -> Loaded:
    return config.load(flags(arguments), os.environ, Path.cwd(), arguments.config)


def on_stores(arguments: argparse.Namespace, work: Callable[[Core], Awaitable[T]]) -> T:
    """With the stores opened, beside running nodes or without any; what was noted is written before they close."""
    import asyncio

    from tidings.gateway.server import loop_factory
    from tidings.wiring import open_core

    async def opened() -> T:
        async with open_core(load(arguments).settings, is_guest=True) as core:
            try:
                return await work(core)
            finally:
                await core.limiting.audit.stop()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(opened())


def flags(arguments: argparse.Namespace) -> dict[str, str]:
    given = vars(arguments).items()
    return {name.removeprefix("set:"): value for name, value in given if name.startswith("set:") and value is not None}


def checked(flag: str, parse: Callable[[str], Any], value: str) -> Any:
    try:
        return parse(value)
    except SettingsError as error:
        raise SettingsError(f"bad value for {flag}: {error}") from None


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_report(report: Any, is_json: bool) -> None:
    """Every field of a msgspec Struct, each on a line of its own."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(report)
    if is_json:
        print_json(fields)
    else:
        for name, value in fields.items():
            print(f"{name}: {_plain(value)}")


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"\n  {json.dumps(item, ensure_ascii=False)}" for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
