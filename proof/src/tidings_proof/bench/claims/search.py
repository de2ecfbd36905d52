"""A search over a million messages answers within 50 ms, and what was sent is found within seconds.

One user is in 10,000 conversations with 100 messages each, all indexed. They ask for words that are in many messages
and in few, for two words at once and for a beginning. The bytes of the index are those of its file. Then many senders
send, and one more message with a word of its own is asked for until it is found: that is the lag of the index.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tidings.clock import Clock
from tidings.messaging.log import Log
from tidings.messaging.search.indexer import Indexer
from tidings_proof.bench.load.senders import PAUSE_S, senders
from tidings_proof.bench.report.figures import percentile
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.seeding import Words, group, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "searches in all conversations of one user, newest first"
COLUMNS = ["", "p50 ms", "p95 ms", "requests"]
READER, WRITER = "reader", "writer"
AT_ONCE = 50  # conversations seeded side by side
APART_MS = 1_000  # between the last messages of two conversations
PROBES = 10  # messages whose way into the index is measured
FOUND_S = 60.0


async def seed(data: Path, conversations: int, messages: int) -> list[str]:
    """Write and index everything. Returns what will be asked for."""
    words, last_ms = Words(), Clock().now_ms() - 60_000
    async with tables_in(data) as tables:
        log = Log(tables.log, tables.conversations, Clock(), lambda name, count: None)
        indexer = Indexer(tables.search, log, tables.conversations)

        async def one(number: int) -> None:
            id_ = f"c{number}"
            await group(tables, id_, [WRITER, READER], messages, last_ms - number * APART_MS, words.text)
            await indexer.catch_up(id_)

        for start in range(0, conversations, AT_ONCE):
            await asyncio.gather(*(one(number) for number in range(start, min(start + AT_ONCE, conversations))))
    said = words.text().split()
    return [said[0], said[-1], f"{said[0]} {said[-1]}", said[1][:3], *words.text().split()]


def index_bytes(data: Path) -> int:
    return sum(file.stat().st_size for file in data.glob("*-search*"))


class Asker:
    """One user over one connection."""

    def __init__(self, server: Target, user_id: str) -> None:
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        self._link = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token(user_id)}"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        self._link.request(method, path, None if body is None else json.dumps(body), self._headers)
        answer = self._link.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {said[:200]!r}")
        return json.loads(said)

    def find(self, text: str) -> list[Any]:
        hits: list[Any] = self.ask("GET", f"/v1/search?q={quote(text)}&limit=20")["hits"]
        return hits


def asked(server: Target, texts: Sequence[str], seconds: float) -> list[float]:
    """How long each search took, in milliseconds. The first round is not counted."""
    asker = Asker(server, READER)
    took_ms: list[float] = []
    for text in texts:
        asker.find(text)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s or not took_ms:
        for text in texts:
            began_s = time.monotonic()
            asker.find(text)
            took_ms.append((time.monotonic() - began_s) * 1000)
    return took_ms


def lags(server: Target, clients: int) -> list[float]:
    """The time from the answer to a send until it is found, in milliseconds, while others send."""
    took_ms: list[float] = []
    writer, reader = Asker(server, WRITER), Asker(server, READER)
    with senders(server, clients):
        for at in range(PROBES):
            word = f"zzprobe{at}zz"
            writer.ask("POST", "/v1/conversations/c0/messages", {"message_id": word, "text": f"where is {word}"})
            began_s = time.monotonic()
            while not reader.find(word):
                if time.monotonic() - began_s > FOUND_S:
                    raise RuntimeError(f"a message was not found within {FOUND_S:g} s")
                time.sleep(0.02)
            took_ms.append((time.monotonic() - began_s) * 1000)
    return took_ms


def run(given: Any) -> Findings:
    with folder() as data:
        texts = asyncio.run(seed(data, given.conversations, given.messages))
        count = given.conversations * given.messages
        each_bytes = index_bytes(data) / count
        with own_node(data, TIDINGS_LIMITS_SEARCH=LIMIT) as server:
            took_ms, lag_ms = asked(server, texts, given.seconds), lags(server, given.clients)
    rows = {"search": took_ms, f"found after a send, {given.clients / PAUSE_S:g} others a second": lag_ms}
    figures = {name: {"p50_ms": percentile(one, 0.5), "p95_ms": percentile(one, 0.95)} for name, one in rows.items()}
    return Findings(
        claim=CLAIM,
        settings={
            "messages": count,
            "conversations": given.conversations,
            "seconds": given.seconds,
            "sends_per_s": given.clients / PAUSE_S,
        },
        figures=figures | {"index_bytes_per_message": round(each_bytes, 1)},
        columns=COLUMNS,
        rows=[[name, *(round(figure, 2) for figure in figures[name].values()), len(rows[name])] for name in rows],
        checks=[
            Check("p95 of a search", round(percentile(took_ms, 0.95), 1), "<=", 50, "ms"),
            Check("p95 until a message is found", round(percentile(lag_ms, 0.95) / 1000, 2), "<=", 5, "s"),
        ],
        facts={"bytes of index per message": round(each_bytes, 1)},
    )
