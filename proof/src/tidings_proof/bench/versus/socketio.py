"""Socket.IO on Node.js: a relay without a store, so it has the live works alone.

Its packages are installed once into a cache folder (XDG_CACHE_HOME, else ~/.cache), from the exact versions and hashes
of the lock beside its server.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.target.own_node import SECRET, await_ready, child, is_answering
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus.rivals import Rival, Server, Sizes
from tidings_proof.world.ports import free_port

_SOURCE = Path(__file__).with_name("socketio-server")
_FILES = ("package.json", "package-lock.json")
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund")


class IoServer(Server):
    dialect = "socketio"


def missing() -> str | None:
    lacks = [name for name in ("node", "npm") if shutil.which(name) is None]
    if lacks:
        return f"no {' and '.join(lacks)}: apt install nodejs npm"
    try:
        installed()
    except RuntimeError as error:
        return str(error)
    return None


def installed() -> Path:
    """The folder with its packages, which are fetched when they are not there."""
    digest = hashlib.sha256(b"".join((_SOURCE / name).read_bytes() for name in _FILES)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tidings" / f"socketio-{digest}"
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            shutil.copyfile(_SOURCE / name, folder / name)
        done = subprocess.run(["npm", *_INSTALL], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"npm cannot fetch it: {' '.join(done.stderr.split())[-200:]}")
        (folder / "ready").touch()
    return folder


@contextmanager
def start(data: Path, sizes: Sizes) -> Iterator[Server]:
    port, log = free_port(), data / "node.log"
    url = f"http://127.0.0.1:{port}"
    given = {"SECRET": SECRET, "NODE_ENV": "production", "NODE_PATH": str(installed() / "node_modules")}
    with child(["node", str(_SOURCE / "server.js"), str(port)], given, log) as node:
        await_ready(node, lambda: is_answering(url), log)
        yield IoServer(Target(url, Signed(SECRET), {"node": [node.pid]}), sizes)


SOCKETIO = Rival(
    "socketio",
    "Socket.IO (stores nothing)",
    "stores nothing and counts nothing; its acknowledgement says that a handler ran",
    start,
    missing,
)
