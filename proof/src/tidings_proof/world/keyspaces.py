"""The keyspaces a torture run can stand on: a Valkey of ours, the embedded one of a node, a cluster, or somebody's URL.

Each says which URL a node is to use, which servers may be spoken to past the nodes, and what may be done to them: a
fault asks `can(...)` and is left out, by name, where the answer is no.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from tidings.clock import Dice
from tidings.stores.keyspace.embedded_folder import FOLDER_NAME, socket_path
from tidings_proof.world.cluster import Cluster
from tidings_proof.world.proxy import Proxy
from tidings_proof.world.valkey import Speaker, ValkeyProcess

PREFIX = "torture."
AOF = ("--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes")
FAKETIME = "/usr/lib/{}/faketime/libfaketime.so.1"  # where Debian puts it


def faketime_library() -> Path | None:
    """Of Debian's libfaketime. None: it is not installed."""
    triplets = (f"{os.uname().machine}-linux-gnu",)
    found = [Path(FAKETIME.format(triplet)) for triplet in triplets]
    return next((file for file in found if file.is_file()), None)


class AnyKeyspace:
    """Somebody's URL: spoken to by nodes alone. Nothing is done to it, for it is not ours."""

    deeds: frozenset[str] = frozenset()

    def __init__(self, url: str) -> None:
        self._url = url
        self.links: list[Proxy] = []  # one per node that can be cut off from it
        self.prefix = ""

    def can(self, deed: str) -> bool:
        return deed in self.deeds

    async def open(self, nodes: int) -> None:
        """Before the first node starts."""

    async def close(self) -> None:
        for link in self.links:
            await link.close()

    def url_of(self, node: int) -> str | None:
        """Return the URL for the node; None means that the node has a keyspace of its own."""
        return self._url

    @property
    def url(self) -> str:
        """For who looks past the nodes."""
        return self._url

    def speakers(self) -> Sequence[Speaker]:
        return ()

    async def heal(self) -> None:
        for link in self.links:
            link.mend()


class OneValkey(AnyKeyspace):
    """A server of ours with an append-only file; each node reaches it through a link of its own."""

    deeds = frozenset(("flush", "kill", "restart", "cut-tail", "stop", "failover", "link"))

    def __init__(self, folder: Path, dice: Dice) -> None:
        super().__init__("")
        self.prefix = PREFIX
        self.server = self._made(folder / "v0")
        self._folder = folder
        self._dice = dice
        self._made_count = 1
        self._old: ValkeyProcess | None = None  # the other primary, while there are two
        self._is_paused = False

    @property
    def clock_file(self) -> Path:
        """Return the file from which libfaketime reads the server's time."""
        return self._folder / "valkey.clock"

    def can(self, deed: str) -> bool:
        return super().can(deed) or (deed == "clock" and faketime_library() is not None)

    async def open(self, nodes: int) -> None:
        self.clock_file.write_text("+0")
        await asyncio.to_thread(self.server.start)
        for number in range(nodes):
            link = Proxy(self.server.socket, self._folder / f"k{number}.sock", Dice(self._dice.random()))
            await link.open()
            self.links.append(link)

    async def close(self) -> None:
        await super().close()
        if self._old is not None:
            self._old.kill()
        self.server.stop()

    def url_of(self, node: int) -> str | None:
        return f"unix://{self.links[node].listen}?prefix={PREFIX}"

    @property
    def url(self) -> str:
        return f"{self.server.url}?prefix={PREFIX}"

    def speakers(self) -> Sequence[Speaker]:
        return (self.server,)

    async def heal(self) -> None:
        if self._is_paused:
            self.resume()
        self.clock_file.write_text("+0")
        await self.join()
        await super().heal()

    # --- what is done to it -------------------------------------------------------------------------

    def pause(self) -> None:
        self.server.pause()
        self._is_paused = True

    def resume(self) -> None:
        self.server.resume()
        self._is_paused = False

    def cut_tail(self, size_bytes: int) -> int:
        """Take the end off the append-only file of a server that does not run; how much that was."""
        files = sorted((self.server.folder / "appendonlydir").glob("*.incr.aof"))
        if not files:
            return 0
        there = files[-1].stat().st_size
        cut = min(size_bytes, there)
        os.truncate(files[-1], there - cut)
        return cut

    async def fail_over(self, tail_s: float) -> None:
        """To a replica that never got the last `tail_s` seconds."""
        old, spare = self.server, await self._replica()
        await asyncio.sleep(tail_s)
        old.kill()
        spare.ask("REPLICAOF", "NO", "ONE")
        self.server = spare
        await asyncio.gather(*(link.switch(spare.socket) for link in self.links))

    async def split(self, moved: int) -> None:
        """Promote a replica for so many of the nodes. The others stay with the old primary until `join`."""
        spare = await self._replica()
        spare.ask("REPLICAOF", "NO", "ONE")
        self._old, self.server = self.server, spare
        await asyncio.gather(*(link.switch(spare.socket) for link in self.links[:moved]))

    async def join(self) -> None:
        """End the old primary of a split: its nodes come to the new one."""
        old, self._old = self._old, None
        if old is not None:
            old.kill()
            await asyncio.gather(*(link.switch(self.server.socket) for link in self.links if link.target == old.socket))

    async def _replica(self) -> ValkeyProcess:
        """Start a replica that has everything of this moment, and is then cut off from its primary."""
        spare = self._made(self._folder / f"v{self._made_count}")
        self._made_count += 1
        await asyncio.to_thread(spare.start)
        wire = Proxy(self.server.socket)
        await wire.open()
        try:
            spare.ask("REPLICAOF", "127.0.0.1", wire.port)
            await self._in_step(spare)
            await wire.cut()
        finally:
            await wire.close()
        return spare

    async def _in_step(self, spare: ValkeyProcess) -> None:
        async with asyncio.timeout(20):
            while "master_link_status:up" not in str(await asyncio.to_thread(spare.ask, "INFO", "replication")):
                await asyncio.sleep(0.05)

    def _made(self, folder: Path) -> ValkeyProcess:
        return ValkeyProcess(folder, (*AOF, "--repl-diskless-sync-delay", "0"), env=self._faked(folder.parent))

    def _faked(self, folder: Path) -> dict[str, str] | None:
        library = faketime_library()
        if library is None:
            return None
        clock = {"FAKETIME_TIMESTAMP_FILE": str(folder / "valkey.clock"), "FAKETIME_NO_CACHE": "1"}
        return {"LD_PRELOAD": str(library), "FAKETIME_DONT_FAKE_MONOTONIC": "1", **clock}


class EmbeddedKeyspace(AnyKeyspace):
    """The one that the first node runs as its child; the others share it through its socket."""

    deeds = frozenset(("flush", "kill", "link"))

    def __init__(self, folder: Path, owner: Path, dice: Dice) -> None:
        super().__init__("")
        self.socket = socket_path(owner.resolve() / FOLDER_NAME)
        self._folder = folder
        self._dice = dice

    async def open(self, nodes: int) -> None:
        for number in range(1, nodes):
            link = Proxy(self.socket, self._folder / f"k{number}.sock", Dice(self._dice.random()))
            await link.open()
            self.links.append(link)

    def url_of(self, node: int) -> str | None:
        return f"unix://{self.links[node - 1].listen}" if node else None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def speakers(self) -> Sequence[Speaker]:
        return (Speaker(self.socket),)

    def kill(self) -> None:
        """Its node notices, and starts it again."""
        os.kill(Speaker(self.socket).pid, signal.SIGKILL)


class ClusterKeyspace(AnyKeyspace):
    """Three shards of ours. A cluster names its own addresses, so no link stands between."""

    deeds = frozenset(("flush", "kill", "restart"))

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(folder / "c", args=AOF)
        super().__init__("")

    async def open(self, nodes: int) -> None:
        await asyncio.to_thread(self.cluster.start)

    async def close(self) -> None:
        self.cluster.stop()

    def url_of(self, node: int) -> str | None:
        return self.url

    @property
    def url(self) -> str:
        return self.cluster.url

    def speakers(self) -> Sequence[Speaker]:
        return tuple(self.cluster.servers)


__all__ = ["AnyKeyspace", "ClusterKeyspace", "EmbeddedKeyspace", "OneValkey", "faketime_library"]
