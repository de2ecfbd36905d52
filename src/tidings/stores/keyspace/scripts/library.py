"""Lua files by name: their text to load, and a `Call` of each by its hash; the other modules here are stubs.

A line `-- include NAME` in a script stands for the file parts/NAME.lua: what several scripts decide alike is one text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, TypeVar

from tidings.stores.keyspace.call import SCRIPT_NAMES, Arg, Call

R = TypeVar("R")
_INCLUDE = re.compile(r"^-- include (\w+)\n", re.MULTILINE)


class Library:
    """The scripts of one module of stubs."""

    def __init__(self, names: Sequence[str]) -> None:
        self.sources = {name: _INCLUDE.sub(_part, _read(f"{name}.lua")) for name in names}
        self._sha = {name: hashlib.sha1(text.encode()).hexdigest().encode() for name, text in self.sources.items()}
        SCRIPT_NAMES.update((sha, name) for name, sha in self._sha.items())

    def call(
        self,
        name: str,
        keys: tuple[str, ...],
        args: tuple[Arg, ...],
        parse: Callable[[Any], R],
        has_epoch: bool = True,
        epoch_tag: str = "",
        steps: int = 0,
    ) -> Call[R]:
        """The epoch is the first of ARGV, inserted by the connection that writes the call."""
        words: tuple[Arg, ...] = (b"EVALSHA", self._sha[name], len(keys), *keys, *args)
        return Call(keys[0], words, parse, 3 + len(keys) if has_epoch else None, epoch_tag, steps)


def _part(line: re.Match[str]) -> str:
    return _read(f"parts/{line[1]}.lua")


def _read(path: str) -> str:
    return files("tidings.stores.keyspace").joinpath("lua").joinpath(path).read_text("utf-8")
