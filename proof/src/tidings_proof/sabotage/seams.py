"""Seams: the places in the server where a mistake is planted.

The server's engineers rename and move what a plant replaces. A plant that finds nothing to replace would prove
nothing, so `replace` fails loudly when the attribute is gone, or when it is called in another way than before.
"""

from __future__ import annotations

import inspect
from typing import Any

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def replace(owner: Any, name: str, planted: Any) -> None:
    """Put `planted` in the place of an attribute of a class or a module."""
    where = f"{getattr(owner, '__name__', owner)}.{name}"
    assert hasattr(owner, name), f"{where} is gone: the plant must be planted anew"
    current = getattr(owner, name)
    if callable(current):
        assert callable(planted) and _is_async(current) == _is_async(planted), f"{where} has changed its kind"
        assert _fits(planted, current), f"{where} takes other arguments than the plant"
    setattr(owner, name, planted)


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function)


def _fits(planted: Any, current: Any) -> bool:
    ours, theirs = (list(inspect.signature(one).parameters.values()) for one in (planted, current))
    return any(one.kind in _OPEN for one in ours) or len(ours) == len(theirs)
