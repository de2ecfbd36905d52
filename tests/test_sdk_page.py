"""Every Python example of docs/sdk-python.md runs as it is printed, and the page names what there is."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tidings import testing
from tidings.sdk import Account, Client, events

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "sdk-python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def compiled(block: str) -> CodeType:
    return compile(block, "docs/sdk-python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


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
    told = set(events.__all__) - {"Event", "ServerEvent", "Hello"}
    assert [name for name in sorted(told) if f"`{name}`" not in PAGE] == []
