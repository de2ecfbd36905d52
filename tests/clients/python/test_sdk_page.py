"""Every Python example of docs/use/sdk-python.md runs as it is printed, and the page names what there is."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import CodeType
from typing import Any, get_args

import pytest

from tidings import testing
from tidings_client import Account, Client
from tidings_client.values import Event

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "use" / "sdk-python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def compiled(block: str) -> CodeType:
    made: CodeType = compile(block, "docs/use/sdk-python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return made


async def test_the_examples_run_from_top_to_bottom(tmp_path: Path) -> None:
    async with testing.server() as node:
        names: dict[str, Any] = {
            "url": node.url,
            "secret": node.secret,
            "api_key": node.api_key,
            "folder": tmp_path,
        }
        for block in BLOCKS:
            running = eval(compiled(block), names)  # a coroutine where the block awaits something
            if inspect.isawaitable(running):
                await running


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 8


@pytest.mark.parametrize("kind", [Account, Client])
def test_every_public_method_is_on_the_page(kind: type) -> None:
    methods = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", PAGE)] == []


def test_every_event_is_on_the_page() -> None:
    assert [kind.__name__ for kind in get_args(Event) if f"`{kind.__name__}`" not in PAGE] == []
