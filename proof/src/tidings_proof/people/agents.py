"""Programs beside the people: a webhook, somebody who writes piece by piece, and somebody who schedules.

The last two have a conversation of their own with a reader who never connects, so that nobody else's counts depend on
them. The history has their acts, and the state in the end, as events; checks_agents.py judges them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from tidings.clock import Clock, Dice
from tidings.messaging.lifecycle.scheduled import SCHEDULED
from tidings.node.graph import open_core
from tidings_client import Client, Problem
from tidings_proof.judge.dump import Dump
from tidings_proof.judge.history import History
from tidings_proof.people.endpoint import Endpoint
from tidings_proof.people.wire import rest
from tidings_proof.people.workload import Workload
from tidings_proof.world.world import World

HOOKED = 3  # conversations of the people that the webhook hears of
PIECES = 12  # of one streamed message
PIECE_S = 0.08  # between two pieces
LATER_MS = 2_000  # after so long a scheduled message is due
EVERY_S = 1.0  # between two scheduled messages
STREAM_S = 40.0  # for a streamed message, faults included
_TRIES = 100
_POLL_S = 0.3


class Agents:
    def __init__(self, world: World, people: Workload, history: History, dice: Dice) -> None:
        self._world = world
        self._people = people
        self._history = history
        self._dice = dice
        self._clock = Clock()
        self._endpoint = Endpoint(history, dice)
        self._hooked: list[str] = []
        self._own = ""  # their conversation
        self._writer, self._reader = (f"{people.stranger}-{name}" for name in ("writer", "reader"))
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = True

    async def start(self) -> None:
        url = await self._endpoint.open()
        made = await self._rest(
            self._writer, "POST", "/v1/conversations", {"kind": "direct", "members": [self._reader]}
        )
        self._own = made["conversation_id"]
        self._hooked = [*list(self._people.conversations)[:HOOKED], self._own]
        async with open_core(self._world.settings, is_guest=True) as core:
            await core.integration.hooks.create(url, conversation_ids=self._hooked, is_from_start=True)
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._schedule())]

    async def finish(self) -> None:
        """Nothing new is begun, what is under way ends, and what is due is sent."""
        self._is_open, self._endpoint.is_healed = False, True
        await asyncio.gather(*self._tasks)
        async with open_core(self._world.settings, is_guest=True) as core:
            until_s = self._history.now_s() + STREAM_S
            while await core.tables.records.due(SCHEDULED, until_ms=1 << 53, limit=1):
                if self._history.now_s() > until_s:
                    break
                await asyncio.sleep(_POLL_S)

    async def look(self, dump: Dump) -> None:
        """Tell the judge what is there now, through the nodes."""
        entries: list[dict[str, Any]] = []
        while True:
            path = f"/v1/conversations/{self._own}/messages?limit=100&after_seq={len(entries)}"
            page = (await self._rest(self._reader, "GET", path, None))["messages"][::-1]
            entries += page
            if not page:
                break
        totals = await self._rest(self._reader, "GET", "/v1/unread", None)
        shown = [[one["seq"], one["kind"], one["message_id"], one["text"], one.get("state")] for one in entries]
        self._history.event("agents-log", value=[shown, totals["total_unread"]])
        heads = {id_: dump.logs[id_].head.head for id_ in self._hooked if id_ in dump.logs} | {self._own: len(entries)}
        await self._endpoint.settle(heads, STREAM_S)
        self._history.event("hook-heads", value=heads)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._endpoint.close()

    # --- what they do -------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write messages piece by piece, through whatever happens. Some are left in the middle."""
        number = 0
        while self._is_open:
            number += 1
            whole = "".join(f"piece {n} of {number}. " for n in range(PIECES))
            is_left, is_ended = self._dice.random() < 0.2, False
            with suppress(TimeoutError, OSError, Problem, _Left):
                async with asyncio.timeout(STREAM_S), Client(self._url(), self._world.token(self._writer)) as client:
                    async with client.streaming(self._own, message_id=f"s{number}") as out:
                        for n in range(PIECES):
                            if is_left and n > PIECES // 2:
                                raise _Left
                            await out.write(f"piece {n} of {number}. ")
                            await asyncio.sleep(PIECE_S)
                    is_ended = True
            self._history.event("stream", message_id=f"s{number}", text=whole, value=is_ended)

    async def _schedule(self) -> None:
        number = 0
        while self._is_open:
            number += 1
            send_at = self._clock.now_ms() + LATER_MS
            body = {"conversation_id": self._own, "text": f"later {number}", "send_at": send_at}
            with suppress(OSError):
                status, _ = await rest(
                    self._dice.choice(self._people.ports()),
                    self._world.token(self._writer),
                    "PUT",
                    f"/v1/scheduled/l{number}",
                    body,
                )
                if status < 300:
                    self._history.event("scheduled", message_id=f"l{number}", text=body["text"], value=send_at)
            await asyncio.sleep(EVERY_S)

    def _url(self) -> str:
        return f"http://127.0.0.1:{self._dice.choice(self._people.ports())}"

    async def _rest(self, user_id: str, method: str, path: str, body: Any) -> Any:
        for _ in range(_TRIES):
            with suppress(OSError):
                status, answer = await rest(
                    self._dice.choice(self._people.ports()), self._world.token(user_id), method, path, body
                )
                if status < 300:
                    return answer
            await asyncio.sleep(_POLL_S)
        raise RuntimeError(f"{method} {path} is not answered")


class _Left(Exception):
    """The writer leaves in the middle of a message."""
