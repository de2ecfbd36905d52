"""Lua, translated: the few things that differ from Python."""

from __future__ import annotations

from typing import Any

import pytest

from tidings_proof.simulation.lua import Table, compiled


def run(source: str, *argv: bytes) -> Any:
    return compiled(f"#!lua\n{source}")(Table([]), Table(list(argv)), lambda *words: None, lambda *words: None)


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("return 7 % 3", 1),
        ("return math.max(1, 2)", 2),
        ("return tonumber(ARGV[1]) + 1", 6),
        ("if 0 then return 1 end return 2", 1),
        ("local n = 0 for i = 1, 4 do n = n + i end return n", 10),
    ],
)
def test_a_script_computes_as_lua_does(source: str, answer: int) -> None:
    assert run(source, b"5") == answer


def test_lists_begin_at_one() -> None:
    assert run("local t = {'a', 'b'} return t[1]") == b"a"
    assert run("local t = {'a', 'b'} return #t") == 2
