from __future__ import annotations

import asyncio

import pytest

from tests.sdk.scripted import ScriptedServer
from tests.valkey import free_port
from tidings.clock import Clock
from tidings.sdk.link import Link
from tidings.sdk.refusals import Disconnected
from tidings.sdk.wire import socket_url


async def opened(scripted: ScriptedServer, texts: list[bytes]) -> Link:
    return await Link.open(socket_url(scripted.url), texts.append, Clock())


async def test_texts_go_both_ways_and_the_close_code_is_kept(scripted: ScriptedServer) -> None:
    texts: list[bytes] = []
    link = await opened(scripted, texts)
    peer = await scripted.next()
    link.send(b'{"type":"ping"}')
    await peer.heard("ping")
    peer.say(type="pong")
    peer.close(4008)
    assert await asyncio.wait_for(link.lost, 5) == 4008
    assert texts == [b'{"type": "pong"}'] and not link.is_open
    link.send(b"nobody")  # goes nowhere, and says nothing: the loss is told by `lost`


async def test_a_cut_has_no_code(scripted: ScriptedServer) -> None:
    link = await opened(scripted, [])
    link.cut()
    assert await asyncio.wait_for(link.lost, 5) is None


async def test_nobody_there_is_disconnected() -> None:
    with pytest.raises(Disconnected, match="cannot connect"):
        await Link.open(f"ws://127.0.0.1:{free_port()}/v1/ws", lambda raw: None, Clock())


async def test_a_paused_link_reads_nothing_until_it_is_resumed(scripted: ScriptedServer) -> None:
    came = asyncio.Event()
    link = await Link.open(socket_url(scripted.url), lambda raw: came.set(), Clock())
    peer = await scripted.next()
    link.pause(True)
    peer.say(type="pong")
    link.send(b'{"type":"ping"}')
    await peer.heard("ping")  # a whole round trip later
    assert not came.is_set()
    link.pause(False)
    await asyncio.wait_for(came.wait(), 5)
    link.close()
    await asyncio.wait_for(link.lost, 5)
