"""Faults of the keyspace: killed, cut short, stopped, failed over, emptied, set back, another clock.

Each does its harm and undoes it when its time is over. The table of faults.py names them.
"""

from __future__ import annotations

import asyncio

from tidings.clock import Dice
from tidings.torture.keyspaces import ClusterKeyspace, EmbeddedKeyspace, OneValkey
from tidings.torture.scene import Scene
from tidings.torture.schedule import Step

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
