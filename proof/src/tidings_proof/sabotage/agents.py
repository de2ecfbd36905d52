"""Mistakes towards programs: a webhook moves on, a stream is cut, a schedule is forgotten. See plants.py."""

from __future__ import annotations

from typing import Any

from tidings.messaging.lifecycle.scheduled import Schedule
from tidings.messaging.streaming.streams import Streams
from tidings.stores.outbound import Answer
from tidings.stores.tables.records import Put, Record
from tidings_proof.sabotage.seams import replace


def webhook_moves_on() -> None:
    replace(Answer, "is_taken", property(lambda self: True))


def stream_ends_early() -> None:
    plain = Streams._finish

    async def finish(self: Any, key: Any, record: Record, text: str, state: Any) -> Any:
        return await plain(self, key, record, text[: len(text) // 2], state)

    replace(Streams, "_finish", finish)


def schedule_forgotten() -> None:
    async def send(self: Any, record: Record) -> None:
        await self._records.put([Put(*record.key, None)])

    replace(Schedule, "send", send)
