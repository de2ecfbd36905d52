"""A WebSocket server that says only what a test tells it to: for what a real node does rarely, slowly or never.

And a clock that stands still until a test moves it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import picows

from tidings_client import Client, Clock

Frame = dict[str, Any]


class StillClock(Clock):
    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.fraction = 0.5

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def random_fraction(self) -> float:
        return self.fraction


class Conversation(picows.WSListener):
    """The server's side of one connection."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()
        self._transport: picows.WSTransport | None = None

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        self._transport = transport
        self._server.arrivals.put_nowait(self)

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            self._frames.put_nowait(json.loads(frame.get_payload_as_bytes()))
        elif frame.msg_type == picows.WSMsgType.CLOSE:
            transport.disconnect()

    async def heard(self, type_: str) -> Frame:
        """The next frame, which is of this type."""
        frame = await asyncio.wait_for(self._frames.get(), 60)
        assert frame["type"] == type_, frame
        return frame

    def is_quiet(self) -> bool:
        return self._frames.empty()

    def say(self, **frame: Any) -> None:
        assert self._transport is not None
        self._transport.send(picows.WSMsgType.TEXT, json.dumps(frame).encode())

    async def welcome(self, **fields: Any) -> Frame:
        """Takes the connect and says hello."""
        connect = await self.heard("connect")
        self.greet(connect, **fields)
        return connect

    def greet(self, connect: Frame, **fields: Any) -> None:
        hello = {
            "protocol": 1,
            "user_id": "alice",
            "connection_id": "x",
            "server_time": 1_000,
            "server_version": "0",
            "store_epoch": "e",
            "ping_interval_ms": 25_000,
            "total_unread": 0,
            "unread_conversations": 0,
        }
        self.say(id=connect["id"], type="hello", **{**hello, **fields})

    def close(self, code: int) -> None:
        assert self._transport is not None
        self._transport.send_close(code)  # type: ignore[arg-type]  # picows takes any number
        self._transport.disconnect()


class ScriptedServer:
    def __init__(self, url: str = "") -> None:
        self.arrivals: asyncio.Queue[Conversation] = asyncio.Queue()
        self.url = url

    async def next(self) -> Conversation:
        return await asyncio.wait_for(self.arrivals.get(), 60)


@asynccontextmanager
async def open_scripted() -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer()
    listening = await picows.ws_create_server(lambda request: Conversation(made), "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        listening.close()


def entry(seq: int, text: str = "", sender_id: str = "bob", sent_at: int = 2_000) -> Frame:
    """A MESSAGE of the wire."""
    return {
        "seq": seq,
        "kind": "message",
        "message_id": f"m{seq}",
        "sender_id": sender_id,
        "text": text or f"text {seq}",
        "ts": sent_at,
        "sent_at": sent_at,
        "deleted": False,
        "edited_at": None,
        "target_seq": None,
        "member": None,
    }


def message_new(seq: int, conversation_id: str = "c1", **fields: Any) -> Frame:
    counts = {"unread_count": None, "unread_capped": False, "total_unread": None}
    message = entry(seq, **fields)
    return {"type": "message.new", "conversation_id": conversation_id, "message": message, **counts}


def page(*entries: Frame, head: int, next_before_seq: int | None = None) -> Frame:
    """An `ok` to history: entries given oldest first."""
    return {
        "type": "ok",
        "messages": list(entries)[::-1],
        "next_before_seq": next_before_seq,
        "next_after_seq": None,
        "first_unread_seq": None,
        "head": head,
        "delivered_all_seq": 0,
        "read_all_seq": 0,
    }


@asynccontextmanager
async def connected(scripted: ScriptedServer, **options: Any) -> AsyncIterator[tuple[Client, Conversation]]:
    """A client that this server has welcomed."""
    client = Client(scripted.url, "t", **options)
    connecting = asyncio.create_task(client.connect())
    peer = await scripted.next()
    await peer.welcome()
    await connecting
    try:
        yield client, peer
    finally:
        await client.close()
