"""docs/use/sdk-python.md names what there is. tests/docs/test_code_blocks.py runs its examples."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from tidings_client import Account, Client
from tidings_client.values import Event

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "use" / "sdk-python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 8


@pytest.mark.parametrize("kind", [Account, Client])
def test_every_public_method_is_on_the_page(kind: type) -> None:
    methods = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", PAGE)] == []


def test_every_event_is_on_the_page() -> None:
    assert [kind.__name__ for kind in get_args(Event) if f"`{kind.__name__}`" not in PAGE] == []
