"""Predecessors: the names of the nodes that used the embedded Valkey before, in a file of the data folder.

The owner of the data folder knows that they are dead, because it holds the lock of that folder. So it ends their leases
at once, and their open work is taken over without waiting for a lease to run out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FILE = "node.id"


def read_predecessors(data: Path) -> list[str]:
    file = data / FILE
    return file.read_text("utf-8").split() if file.exists() else []


def write_predecessors(data: Path, node_ids: Iterable[str]) -> None:
    """Replace the list by the nodes that use the Valkey from now on."""
    file = data / FILE
    file.touch(mode=0o600)
    file.write_text("\n".join(node_ids), "utf-8")
