"""Tidings: a messaging backend that a team runs itself.

The folders follow the way of a message: gateway (a socket becomes a command), messaging (what the command means),
routing (where the recipients are), stores (what remains). Imports go in that direction only. `Client` and `Server` come
from the package tidings-client, `testing` is a node for test suites. Each is loaded on first use, so that
`import tidings` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings import testing
    from tidings_client import Client, Server

__version__ = "0.1.0"
__all__ = ["Client", "Server", "__version__", "testing"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tidings' has no attribute {name!r}")
    try:
        return import_module("tidings.testing") if name == "testing" else getattr(import_module("tidings_client"), name)
    except ModuleNotFoundError as error:
        if error.name != "tidings_client":
            raise
        raise ImportError(f"tidings.{name} needs the package tidings-client: pip install tidings-client") from None
