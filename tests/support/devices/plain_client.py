"""A plain client of the public protocol for tests: requests by id, events in a list, nothing clever.

It knows only what PROTOCOL says, so what it sees is what any client would see.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any

import picows

from tidings.node.node import Node

Frame = dict[str, Any]


class Listener(picows.WSListener):
    def __init__(self, client: Client) -> None:
        self.client = client

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            self.client.hear(frame.get_payload_as_bytes())
        elif frame.msg_type == picows.WSMsgType.PING:
            transport.send_pong(frame.get_payload_as_bytes())
        elif frame.msg_type == picows.WSMsgType.CLOSE:
            self.client.close_code = int(frame.get_close_code())  # type: ignore[call-overload]
            transport.disconnect()

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        self.client.lost()


class Client:
    """One connection. `events` holds every frame without an id, in order."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token
        self.events: list[Frame] = []
        self.hello: Frame = {}
        self.close_code: int | None = None
        self.is_lost = asyncio.Event()
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._came = asyncio.Event()
        self._transport: picows.WSTransport | None = None

    async def __aenter__(self) -> Client:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self, **fields: Any) -> Client:
        await self.open()
        self.hello = await self.request("connect", token=self.token, **fields)
        assert self.hello["type"] == "hello", self.hello
        return self

    async def open(self) -> Client:
        """The socket alone, without `connect`."""
        url = f"ws://127.0.0.1:{self.port}/v1/ws"
        self._transport, _ = await picows.ws_connect(lambda: Listener(self), url, websocket_handshake_timeout=60)
        return self

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.send_close(picows.WSCloseCode.OK)
            self._transport.disconnect()
            await asyncio.wait_for(self.is_lost.wait(), 60)

    def cut(self) -> None:
        """Vanish without a word."""
        assert self._transport is not None
        self._transport.underlying_transport.abort()

    def send(self, frame: Frame | str) -> None:
        assert self._transport is not None and not self.is_lost.is_set()
        text = frame if isinstance(frame, str) else json.dumps(frame)
        self._transport.send(picows.WSMsgType.TEXT, text.encode())

    def ask(self, type_: str, **fields: Any) -> asyncio.Future[Frame]:
        """Send now; the answer is the future's."""
        id_ = next(self._ids)
        answer = self._answers[id_] = asyncio.get_running_loop().create_future()
        self.send({"id": id_, "type": type_, **fields})
        return answer

    async def request(self, type_: str, **fields: Any) -> Frame:
        return await asyncio.wait_for(self.ask(type_, **fields), 60)

    async def say(self, conversation_id: str, message_id: str, text: str = "hi") -> Frame:
        return await self.request("message.send", conversation_id=conversation_id, message_id=message_id, text=text)

    async def say_until_stored(self, conversation_id: str, message_id: str, text: str) -> Frame:
        """Send again while a store, beside other work, is too slow to answer."""
        while (answer := await self.say(conversation_id, message_id, text)).get("code") == "unavailable":
            await asyncio.sleep(0.2)
        return answer

    async def event(self, is_wanted: Callable[[Frame], bool], within_s: float = 60) -> Frame:
        """The first event, past or to come, that is wanted."""
        async with asyncio.timeout(within_s):
            seen = 0
            while True:
                for frame in self.events[seen:]:
                    if is_wanted(frame):
                        return frame
                seen = len(self.events)
                self._came.clear()
                await self._came.wait()

    async def message(self, text: str, within_s: float = 60) -> Frame:
        return await self.event(
            lambda frame: frame["type"] == "message.new" and frame["message"]["text"] == text, within_s
        )

    def messages(self, conversation_id: str | None = None) -> list[Frame]:
        return [
            frame["message"]
            for frame in self.events
            if frame["type"] == "message.new" and conversation_id in (None, frame["conversation_id"])
        ]

    def hear(self, payload: bytes) -> None:
        """Every text frame comes here first; a client that hears very much may look at the bytes alone."""
        self.take(json.loads(payload))

    def take(self, frame: Frame) -> None:
        id_ = frame.get("id")
        if id_ is not None and id_ in self._answers:
            answer = self._answers.pop(id_)
            if not answer.done():
                answer.set_result(frame)
            return
        self.events.append(frame)
        self._came.set()

    def lost(self) -> None:
        self.is_lost.set()
        self._came.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError(f"closed with {self.close_code}"))


def token_for(node: Node, user_id: str, ttl_s: int = 3600) -> str:
    """A token as the team's own backend would make it."""
    return sign(node.core.settings.auth.secret or "", user_id, ttl_s=ttl_s, now_ms=node.core.clock.now_ms())


def sign(secret: str, user_id: str, *, ttl_s: int, now_ms: int) -> str:
    from joserfc import jwt
    from joserfc.jwk import OctKey

    claims = {"sub": user_id, "iat": now_ms // 1000, "exp": now_ms // 1000 + ttl_s}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(secret))
