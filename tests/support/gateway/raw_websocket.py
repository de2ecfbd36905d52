"""A WebSocket client by hand, on plain streams: it can say what no decent client would."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Self

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.ids = 0

    @classmethod
    async def open(cls, port: int, **headers: str) -> Self:
        """Upgraded, nothing said yet."""
        wire, head = await cls.handshake(port, **headers)
        assert b" 101 " in head.split(b"\r\n")[0], head
        return wire

    @classmethod
    async def handshake(cls, port: int, path: str = "/v1/ws", **headers: str) -> tuple[Self, bytes]:
        """The request, and the head of whatever is answered. Header names have `_` for `-`."""
        wire = cls(*await asyncio.open_connection("127.0.0.1", port))
        named = {
            "Host": f"127.0.0.1:{port}",
            "Connection": "keep-alive, Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": KEY,
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        wire.writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        return wire, await wire.reader.readuntil(b"\r\n\r\n")

    async def connect(self, token: str, **fields: Any) -> dict[str, Any]:
        """Says connect; answers the hello (or the error)."""
        return await self.ask("connect", token=token, **fields)

    async def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A request with an id, and its answer; events on the way are skipped."""
        self.ids += 1
        self.say(id=self.ids, type=kind, **fields)
        return await self.answer_to(self.ids)

    async def answer_to(self, frame_id: int) -> dict[str, Any]:
        while True:
            frame = await self.hear()
            if frame.get("id") == frame_id:
                return frame

    def say(self, **fields: Any) -> None:
        self.say_text(json.dumps(fields))

    def say_text(self, text: str) -> None:
        self.raw(TEXT, text.encode())

    def raw(self, opcode: int, payload: bytes, *, fin: bool = True, rsv: int = 0, is_masked: bool = True) -> None:
        first = (0x80 if fin else 0) | rsv << 4 | opcode
        size = len(payload)
        bit = 0x80 if is_masked else 0
        if size < 126:
            head = bytes((first, bit | size))
        elif size < 65_536:
            head = bytes((first, bit | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((first, bit | 127)) + size.to_bytes(8, "big")
        if is_masked:
            mask = os.urandom(4)
            repeated = mask * (size // 4 + 1)
            masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated[:size], "big")).to_bytes(size, "big")
            payload = mask + masked
        self.writer.write(head + payload)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: opcode and payload."""
        first, second = await self.reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            size = int.from_bytes(await self.reader.readexactly(2), "big")
        elif size == 127:
            size = int.from_bytes(await self.reader.readexactly(8), "big")
        return first & 0x0F, await self.reader.readexactly(size)

    async def hear(self) -> dict[str, Any]:
        """The next text frame; a close fails the test."""
        while True:
            opcode, payload = await self.frame()
            assert opcode != CLOSE, f"closed with {int.from_bytes(payload[:2], 'big')} {payload[2:]!r}"
            if opcode == TEXT:
                found: dict[str, Any] = json.loads(payload)
                return found

    async def closed(self) -> int:
        """The code the server closes with; text before it is skipped."""
        while True:
            opcode, payload = await self.frame()
            if opcode == CLOSE:
                self.raw(CLOSE, payload[:2])
                return int.from_bytes(payload[:2], "big")

    def drop(self) -> None:
        self.writer.transport.abort()


async def http(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], Any]:
    """One REST request: status, headers, decoded JSON (or text, or the bytes of a picture)."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    named = {"Host": f"127.0.0.1:{port}", "Connection": "close", "Content-Length": str(len(raw))} | (headers or {})
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + raw)
    answer = await reader.read()
    writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    found = {name.lower(): value for name, _, value in (line.partition(": ") for line in fields)}
    kind = found.get("content-type", "")
    is_json = rest and kind.startswith("application/json")
    told = json.loads(rest) if is_json else rest if kind.startswith("image/") else rest.decode()
    return int(status.split(" ")[1]), found, told
