"""Tidings: a messaging backend that a team runs itself.

The folders are the way of a message: gateway (a socket becomes a command), messaging (what it means),
routing (where the recipients are), stores (what remains). Imports go in that direction only. `Client` and `Server` are
what a program that talks to a node imports, `testing` what its tests do; they are loaded when first named, so that
`import tidings` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings import sdk, testing
    from tidings.sdk import Client, Server

__version__ = "0.1.0"
__all__ = ["Client", "Server", "__version__", "sdk", "testing"]


def __getattr__(name: str) -> Any:
    if name in ("sdk", "testing"):
        return import_module(f"tidings.{name}")
    if name not in ("Client", "Server"):
        raise AttributeError(f"module 'tidings' has no attribute {name!r}")
    return getattr(import_module("tidings.sdk"), name)
