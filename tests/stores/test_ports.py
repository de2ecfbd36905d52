"""What the ports say about a preview, and that the adapter has all of them."""

from __future__ import annotations

import inspect

import pytest

from tidings.bounds import PREVIEW_CHARS_MAX
from tidings.stores import ports
from tidings.stores.ports import preview_of
from tidings.stores.tables_sqlite import SqliteTables


@pytest.mark.parametrize(
    ("text", "preview"),
    [
        (None, None),
        ("", ""),
        ("hello", "hello"),
        ("one\ntwo\r\nthree\rfour", "one two three four"),
        ("x" * (PREVIEW_CHARS_MAX + 1), "x" * PREVIEW_CHARS_MAX),
    ],
)
def test_a_preview_is_the_beginning_on_one_line(text: str | None, preview: str | None) -> None:
    assert preview_of(text) == preview


def test_the_adapter_has_every_method_of_every_port_with_the_same_parameters() -> None:
    for name, owed in inspect.getmembers(ports.Tables, inspect.isfunction):
        if name.startswith("_"):
            continue
        offered = inspect.signature(getattr(SqliteTables, name))
        assert list(offered.parameters) == list(inspect.signature(owed).parameters), name


def test_each_port_is_small() -> None:
    for port in (ports.Messages, ports.Conversations, ports.Inboxes, ports.Statuses):
        methods = [name for name in vars(port) if not name.startswith("_")]
        assert 2 <= len(methods) <= 6, port
