"""Rude ways: what no good client does, and any bad network or bad code will do.

They send a message twice at once, from two devices at once, again after an hour, with another text, or in the wrong
order; they flood; their socket vanishes between send and ack.

Each way takes a device and its user's other devices. A message whose order the device itself breaks is marked `loose`
first. workload.py picks from WAYS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tidings_proof.people.device import Device

BURST = 24  # messages of a flood
Way = Callable[[Device, Sequence[Device]], Awaitable[None]]


async def send_twice_at_once(device: Device, twins: Sequence[Device]) -> None:
    """Two frames in one breath. Nothing else of it waits there, so nothing is overtaken."""
    id_ = _quiet_place(device)
    if id_ is not None:
        message_id = device.compose(id_)
        device.loose.add(message_id)  # the queue sends it once more
        await asyncio.gather(*(device.send(id_, message_id, f"what {message_id} says") for _ in range(2)))


async def send_from_two_devices(device: Device, twins: Sequence[Device]) -> None:
    live = [twin for twin in twins if twin.is_live]
    id_ = _quiet_place(device)
    if id_ is None or not live:
        return
    message_id = device.compose(id_)
    device.loose.add(message_id)
    twin = live[0]
    twin.loose.add(message_id)
    ends = await asyncio.gather(*(each.send(id_, message_id, f"what {message_id} says") for each in (device, twin)))
    if ends[1] == "info":
        _abandon(twin, id_, message_id)


async def send_again(device: Device, twins: Sequence[Device]) -> None:
    """Something that was acknowledged long ago, on whichever device."""
    known = device.acked
    if known:
        conversation_id, message_id, _, text = device.dice.choice(known)
        if await device.send(conversation_id, message_id, text) == "info":
            _abandon(device, conversation_id, message_id)


async def send_other_text(device: Device, twins: Sequence[Device]) -> None:
    """An id that was acknowledged, with another text: a conflict, whatever happens meanwhile."""
    if device.acked:
        conversation_id, message_id, _, _ = device.dice.choice(device.acked)
        if await device.send(conversation_id, message_id, "another text under the same id") == "info":
            _abandon(device, conversation_id, message_id)


async def flood(device: Device, twins: Sequence[Device]) -> None:
    """More than the limiter likes, in one go."""
    if (id_ := _quiet_place(device)) is not None:
        for _ in range(BURST):
            device.compose(id_)


async def vanish(device: Device, twins: Sequence[Device]) -> None:
    """Gone between send and acknowledgement."""
    if (id_ := _quiet_place(device)) is not None and device.line is not None:
        for _ in range(3):
            device.compose(id_)
        line = device.line
        await asyncio.sleep(0.06 * device.dice.random())
        line.cut()


async def leave_politely(device: Device, twins: Sequence[Device]) -> None:
    if device.line is not None:
        device.line.leave()


async def send_in_the_wrong_order(device: Device, twins: Sequence[Device]) -> None:
    if (id_ := _quiet_place(device)) is None:
        return
    ids = [device.compose(id_) for _ in range(3)]
    device.loose.update(ids)
    await asyncio.gather(*(device.send(id_, one, f"what {one} says") for one in reversed(ids)))


async def stop_reading(device: Device, twins: Sequence[Device]) -> None:
    """A phone in a pocket: the socket stands, nobody takes anything off it."""
    if (line := device.line) is not None:
        line.stop_reading()
        await asyncio.sleep(0.5 + 2 * device.dice.random())
        line.read_on()


def _quiet_place(device: Device) -> str | None:
    """A conversation in which nothing of this device is under way."""
    quiet = [id_ for id_, one in device.followed.items() if one.is_here and not device.waiting(id_)]
    return device.dice.choice(quiet) if quiet else None


def _abandon(device: Device, conversation_id: str, message_id: str) -> None:
    """A copy that will not be sent again must not hold up what comes later."""
    if device.line is not None and device.line.is_live:
        device.line.say({"type": "message.abandon", "conversation_id": conversation_id, "message_id": message_id})


WAYS: tuple[Way, ...] = (
    send_twice_at_once,
    send_from_two_devices,
    send_again,
    send_again,
    send_other_text,
    flood,
    vanish,
    leave_politely,
    send_in_the_wrong_order,
    stop_reading,
)
