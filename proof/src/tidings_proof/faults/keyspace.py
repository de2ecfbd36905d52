"""Faults of the keyspace: killed, cut short, stopped, failed over, emptied, set back, another clock.

Each does its harm and undoes it when its time is over. The table of faults.py names them.
"""

from __future__ import annotations

import asyncio
import re

from tidings.clock import Dice
from tidings_proof.faults.schedule import Step
from tidings_proof.world.keyspaces import ClusterKeyspace, EmbeddedKeyspace, OneValkey
from tidings_proof.world.scene import Scene

CUT_BYTES_MAX = 20_000  # of an append-only file: some hundred commands
KEY_CLASSES = (
    "inbox",
    "mark",
    "unread",
    "conv",
    "sent",
    "delivered",
    "readby",
    "ws",
    "session",
    "open",
    "nodes",
    "due",
)
_LOST_TAIL_S = 1.0


async def kill(scene: Scene, step: Step) -> None:
    """kill -9, and again from what its append-only file holds."""
    keyspace = scene.world.keyspace
    if isinstance(keyspace, EmbeddedKeyspace):
        await asyncio.to_thread(keyspace.kill)
        return
    assert isinstance(keyspace, OneValkey | ClusterKeyspace)
    servers = [keyspace.server] if isinstance(keyspace, OneValkey) else keyspace.cluster.servers
    server = servers[int(step.target * len(servers))]
    server.kill()
    await asyncio.sleep(step.lasts_s / 2)
    await asyncio.to_thread(server.start)


async def cut(scene: Scene, step: Step) -> None:
    """The same, and the end of the file is gone."""
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.server.kill()
    keyspace.cut_tail(int(step.degree * CUT_BYTES_MAX))
    await asyncio.to_thread(keyspace.server.start)


async def stop(scene: Scene, step: Step) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.pause()
    await asyncio.sleep(step.lasts_s)
    keyspace.resume()


async def fail_over(scene: Scene, step: Step) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    await keyspace.fail_over(_LOST_TAIL_S + step.degree)


async def fail_over_back(scene: Scene, step: Step) -> None:
    """A failover to a server whose clock is behind."""
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.clock_file.write_text(f"{Dice(step.degree).choice((-6, -60, -3_600)):+d}")
    await keyspace.fail_over(_LOST_TAIL_S)
    await asyncio.sleep(step.lasts_s)
    keyspace.clock_file.write_text("+0")


async def two_primaries(scene: Scene, step: Step) -> None:
    """A replica is promoted, and some nodes stay with the old primary for a while."""
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    await keyspace.split(1 + int(step.target * len(keyspace.links)) % len(keyspace.links))
    await asyncio.sleep(step.lasts_s)
    await keyspace.join()


async def evict(scene: Scene, step: Step) -> None:
    """The server has no more memory, and drops the keys that were used least, whatever they are."""
    limits = {"maxmemory-policy": "allkeys-lru", "maxmemory": "1"}

    def squeeze() -> None:
        for speaker in scene.world.keyspace.speakers():
            used = re.search(r"used_memory:(\d+)", str(speaker.ask("INFO", "memory")))
            assert used is not None
            limits["maxmemory"] = str(int(int(used[1]) * (0.97 + 0.03 * step.degree)))
            for name, value in limits.items():
                speaker.ask("CONFIG", "SET", name, value)

    def release() -> None:
        for speaker in scene.world.keyspace.speakers():
            speaker.ask("CONFIG", "SET", "maxmemory", "0")
            speaker.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")

    await asyncio.to_thread(squeeze)
    try:
        await asyncio.sleep(step.lasts_s)
    finally:
        await asyncio.to_thread(release)


async def counter_lost(scene: Scene, step: Step) -> None:
    """The counters are lost again and again while commits are slow: other nodes number and store meanwhile."""
    prefix = scene.world.keyspace.prefix

    def lose() -> None:
        for speaker in scene.world.keyspace.speakers():
            speaker.ask_all([["DEL", key] for key in speaker.scan(f"{prefix}conv:*")])

    for node in scene.world.nodes:
        node.trouble.change(slow_s=0.5)
    for _ in range(2 + int(step.degree * 4)):
        await asyncio.sleep(0.15)
        await asyncio.to_thread(lose)
    for node in scene.world.nodes:
        node.trouble.change(slow_s=0.0)


async def flush(scene: Scene, step: Step) -> None:
    speakers = scene.world.keyspace.speakers()
    await asyncio.to_thread(speakers[int(step.target * len(speakers))].ask, "FLUSHALL")


async def key_loss(scene: Scene, step: Step) -> None:
    """A good part of the keys of one kind is gone."""
    prefix = scene.world.keyspace.prefix
    pattern = f"{prefix}{KEY_CLASSES[int(step.target * len(KEY_CLASSES))]}*"
    dice = Dice(step.degree)

    def lose() -> None:
        for speaker in scene.world.keyspace.speakers():
            doomed = [key for key in speaker.scan(pattern) if dice.random() < 0.5]
            speaker.ask_all([["DEL", key] for key in doomed])

    await asyncio.to_thread(lose)


async def counters_back(scene: Scene, step: Step) -> None:
    """Numbers that were handed out are handed out again, in the same life of the keyspace."""
    prefix, back = scene.world.keyspace.prefix, 1 + int(step.degree * 40)

    def turn() -> None:
        for speaker in scene.world.keyspace.speakers():
            for key in speaker.scan(f"{prefix}conv:*"):
                seq = int(speaker.ask("HGET", key, "seq") or 0)
                if seq:
                    speaker.ask("HSET", key, "seq", max(1, seq - back))

    await asyncio.to_thread(turn)


async def turn_clock(scene: Scene, step: Step) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.clock_file.write_text(f"{Dice(step.degree).choice((-300, 300, -3_600)):+d}")
    await asyncio.sleep(step.lasts_s)
    keyspace.clock_file.write_text("+0")
