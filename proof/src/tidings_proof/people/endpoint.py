"""The endpoint of a webhook: away, wrong and slow by turns while faults come, then fine.

It records every request that it reads, with its answer. The judge holds that against the log (I19).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from tidings.clock import Dice
from tidings_proof.judge.history import History

MOOD_S = 1.5  # how long a mood lasts: an endpoint that is away for longer is left alone for longer
SLOW_S = 0.7
_MOODS = ("fine", "fine", "away", "wrong", "slow")
_POLL_S = 0.1


class Endpoint:
    def __init__(self, history: History, dice: Dice) -> None:
        self._history = history
        self._dice = dice
        self._server: asyncio.Server | None = None
        self._mood = "fine"
        self._mood_until_s = 0.0
        self.is_healed = False
        self.have: dict[str, int] = {}  # conversation -> the last entry that was taken

    async def open(self) -> str:
        """Returns its URL."""
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def settle(self, heads: dict[str, int], within_s: float) -> None:
        """Wait until it has everything up to these numbers."""
        until_s = self._history.now_s() + within_s
        while self._history.now_s() < until_s and any(self.have.get(id_, 0) < head for id_, head in heads.items()):
            await asyncio.sleep(_POLL_S)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answer(reader, writer):
                continue
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body: dict[str, Any] = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])))
        mood = self._now()
        if mood == "slow":
            await asyncio.sleep(SLOW_S)
        status = {"away": 0, "wrong": 503}.get(mood, 200)
        id_, seqs = body["conversation_id"], [entry["seq"] for entry in body["entries"]]
        if status == 200:
            self.have[id_] = max(self.have.get(id_, 0), seqs[-1])
        self._history.event("hook", conversation_id=id_, text=headers["idempotency-key"], value=[status, seqs])
        if not status:
            return False
        writer.write(f"HTTP/1.1 {status} -\r\ncontent-length: 0\r\n\r\n".encode())
        return True

    def _now(self) -> str:
        if self.is_healed:
            return "fine"
        if self._history.now_s() >= self._mood_until_s:
            self._mood, self._mood_until_s = self._dice.choice(_MOODS), self._history.now_s() + MOOD_S
        return self._mood
