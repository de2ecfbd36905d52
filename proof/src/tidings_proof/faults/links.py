"""Faults on the way: between node and keyspace, between clients and node, and of the clients themselves.

Each does its harm and undoes it when its time is over. The table of faults.py names them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import picows

from tidings_proof.faults.schedule import Step
from tidings_proof.people.wire import Line
from tidings_proof.world.scene import Scene

_DROP_S = 0.4  # between two rounds of dropping


async def partition(scene: Scene, step: Step) -> None:
    """One node and the keyspace: refused, or a black hole."""
    links = scene.world.keyspace.links
    link = links[int(step.target * len(links))]
    if step.degree < 0.5:
        await link.cut()
    else:
        link.freeze()
    await asyncio.sleep(step.lasts_s)
    link.mend()


async def slow_link(scene: Scene, step: Step) -> None:
    links = scene.world.keyspace.links
    link = links[int(step.target * len(links))]
    link.delay_s = 0.02 + 0.2 * step.degree
    await asyncio.sleep(step.lasts_s)
    link.mend()


async def dropping_links(scene: Scene, step: Step) -> None:
    """Connections die in the middle of what they carry, again and again, everywhere."""
    links = [*scene.world.keyspace.links, *scene.world.fronts]
    for _ in range(max(1, int(step.lasts_s / _DROP_S))):
        await asyncio.gather(*(link.drop(0.3) for link in links))
        await asyncio.sleep(_DROP_S)


async def clients_cut(scene: Scene, step: Step) -> None:
    """Everybody at one node loses the connection at once, and comes back at once."""
    fronts = scene.world.fronts
    await fronts[int(step.target * len(fronts))].drop()


async def clients_frozen(scene: Scene, step: Step) -> None:
    """Half-open: a node believes in its clients and they in it, and nothing passes."""
    fronts = scene.world.fronts
    front = fronts[int(step.target * len(fronts))]
    front.freeze()
    await asyncio.sleep(step.lasts_s)
    front.mend()


async def clients_slow(scene: Scene, step: Step) -> None:
    fronts = scene.world.fronts
    front = fronts[int(step.target * len(fronts))]
    front.is_dripping = True
    await asyncio.sleep(step.lasts_s)
    front.mend()


# --- people -----------------------------------------------------------------------------------------


async def members_churn(scene: Scene, step: Step) -> None:
    for _ in range(5 + int(25 * step.degree)):
        await scene.people.change_members()


async def strangers_flood(scene: Scene, step: Step) -> None:
    """Somebody who is a member of nothing sends into every conversation, and into some that do not exist."""
    people = scene.people
    targets = [*people.conversations, *(f"no-{number}" for number in range(20))]
    lines = [Line(number, port, lambda line, frame: None) for number, port in enumerate(people.ports())]

    async def flood(line: Line) -> None:
        with suppress(OSError, picows.WSError, ConnectionError):
            await line.open()
            await line.ask("connect", token=people.token(people.stranger))
            for number in range(int(step.lasts_s * 50)):
                for conversation_id in targets:
                    facts = {"conversation_id": conversation_id, "message_id": f"f-{number}", "text": "let me in"}
                    line.say({"type": "message.send", **facts})
                line.say({"type": "message.delivered", "acks": dict.fromkeys(targets, number)})
                await asyncio.sleep(0.02)
        line.cut()

    await asyncio.gather(*(flood(line) for line in lines))


async def reconnect_storm(scene: Scene, step: Step) -> None:
    for device in scene.people.devices:
        if device.line is not None:
            device.line.cut()


async def slow_readers(scene: Scene, step: Step) -> None:
    lines = [device.line for device in scene.people.devices if device.line is not None]
    lines = lines[: len(lines) // 3]
    for line in lines:
        line.stop_reading()
    await asyncio.sleep(step.lasts_s)
    for line in lines:
        line.read_on()
