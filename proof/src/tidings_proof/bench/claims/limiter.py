"""The limiter decides at 0.7 or more of the rate that the same Valkey reaches with the bare script.

Ours is `Limiter.admit_many` as the send path calls it: batches of 64 users, several batches under way. The bare rate is
the same script on the same server by pipelined EVALSHA: packed bytes on a plain socket, answers only counted. Both use
10,000 users of their own and the same limit, so that windows stay small and nobody is refused; they take turns, and the
share is the median of the turns.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import statistics
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import hiredis

from tidings.bounds import Limit
from tidings.config.settings import Limits, Settings
from tidings.gateway.server import loop_factory
from tidings.node.graph import Core, open_core
from tidings.stores.keyspace.embedded_folder import running_socket
from tidings.stores.keyspace.scripts.messaging import SOURCES
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder

CLAIM = "decisions a second, as a share of bare pipelined EVALSHA on the same Valkey"
BATCH = 64
UNDER_WAY = 4  # batches
USERS = 10_000
TURNS = 5
LIMIT = Limit(1_000, 60)


def batches(prefix: str) -> Iterator[list[str]]:
    """User ids in batches, round and round."""
    at = 0
    while True:
        yield [f"{prefix}{(at + number) % USERS}" for number in range(BATCH)]
        at += BATCH


async def ours(core: Core, wanted: Iterator[list[str]], seconds: float) -> float:
    """Decisions a second of our limiter."""
    began_s, decided = time.perf_counter(), 0

    async def decide() -> None:
        nonlocal decided
        while time.perf_counter() - began_s < seconds:
            users = next(wanted)
            answers = await core.limiting.limiter.admit_many("send", [(user_id, 1) for user_id in users])
            assert all(answer.admitted == 1 for answer in answers)
            decided += len(answers)

    await asyncio.gather(*(decide() for _ in range(UNDER_WAY)))
    return decided / (time.perf_counter() - began_s)


class Bare:
    """A blocking connection that keeps batches of EVALSHA under way and counts the answers."""

    def __init__(self, path: Path) -> None:
        self._link = socket.socket(socket.AF_UNIX)
        self._link.connect(str(path))
        self._reader = hiredis.Reader()
        sha = hashlib.sha1(SOURCES["limiter_admit"].encode()).hexdigest()
        self._before = ("EVALSHA", sha, "1")
        self._after = (str(LIMIT.window_s * 1_000_000), str(LIMIT.count), "1")
        self._token = 0

    def close(self) -> None:
        self._link.close()

    def rate(self, wanted: Iterator[list[str]], seconds: float) -> float:
        began_s, decided = time.perf_counter(), 0
        under_way: deque[int] = deque()
        while time.perf_counter() - began_s < seconds:
            while len(under_way) < UNDER_WAY:
                self._link.sendall(b"".join(map(self._packed, next(wanted))))
                under_way.append(BATCH)
            self._await(under_way.popleft())
            decided += BATCH
        self._await(sum(under_way))
        return decided / (time.perf_counter() - began_s)

    def _packed(self, user_id: str) -> bytes:
        self._token += 1
        words = (*self._before, f"rate:{{{user_id}}}:send", *self._after, f"bare{self._token:x}")
        return b"*8\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words).encode()

    def _await(self, answers: int) -> None:
        while answers:
            answer = self._reader.gets()
            if answer is False:
                self._reader.feed(self._link.recv(65_536))
                continue
            assert answer[0] == 1, answer
            answers -= 1


async def turns(core: Core, path: Path, seconds: float) -> list[tuple[float, float]]:
    """(ours, bare) of each turn. The bare socket has a thread, so that the loop can keep its own link alive."""
    bare, found = Bare(path), []
    ours_of, bare_of = batches("a"), batches("b")
    try:
        for _ in range(TURNS):
            mine = await ours(core, ours_of, seconds)
            found.append((mine, await asyncio.to_thread(bare.rate, bare_of, seconds)))
    finally:
        bare.close()
    return found


async def measured(data: Path, seconds: float) -> list[tuple[float, float]]:
    settings = Settings(data=data, limits=Limits(send=LIMIT))
    async with open_core(settings) as core:
        url = running_socket(data)
        assert url is not None
        return await turns(core, Path(urlsplit(url).path), seconds)


def run(given: Any) -> Findings:
    with folder() as data, asyncio.Runner(loop_factory=loop_factory()) as runner:
        found = runner.run(measured(data, given.seconds))
    shares = [mine / bare for mine, bare in found]
    share = statistics.median(shares)
    return Findings(
        claim=CLAIM,
        settings={
            "batch": BATCH,
            "under_way": UNDER_WAY,
            "users": USERS,
            "limit": str(LIMIT),
            "turns": TURNS,
            "seconds": given.seconds,
        },
        figures={
            "ours_per_s": round(statistics.median(mine for mine, _ in found)),
            "bare_per_s": round(statistics.median(bare for _, bare in found)),
            "share": round(share, 3),
            "turns": [{"ours_per_s": round(mine), "bare_per_s": round(bare)} for mine, bare in found],
        },
        columns=["", "ours/s", "bare EVALSHA/s", "share"],
        rows=[
            [f"turn {number}", *pair, part]
            for number, (pair, part) in enumerate(zip(found, shares, strict=True), start=1)
        ],
        checks=[Check("share of the bare rate, median", share, ">=", 0.7)],
    )
