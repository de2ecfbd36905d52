"""A user who floods with 10,000 messages a second costs the others nothing to speak of.

100 users send within their budget, in a process of their own, all the time. First it is quiet, then one user floods
over a few sockets: the p99 of the others' acknowledgements in the two stretches is compared, and the CPU of the node.
Every reject that the flooder was answered must be in the audit stream's sums, exactly.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import uvloop

from tidings.config.settings import Settings
from tidings.node.graph import open_core
from tidings_proof.bench.load.flooder import flooder
from tidings_proof.bench.load.senders import senders
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder, own_node
from tidings_proof.bench.target.processes import cpu_s
from tidings_proof.bench.target.target import Target

CLAIM = "ack p99 of 100 users within budget, with and without one who floods"
COLUMNS = ["", "ack p50 ms", "ack p99 ms", "acks", "node CPU share", "Valkey CPU share"]
LIMIT = "100/60s"  # the default: the senders stay within it, the flooder has used it up at once
PAUSE_S = 0.7  # of a sender: 86 messages a minute
WARM_UP_S = 3.0
AUDIT_S = 20.0  # until the workers have counted the last entries
MALLORY = "mallory"


class Stretch:
    """A time, and the CPU that each part of the server used in it."""

    def __init__(self, server: Target) -> None:
        self._server = server
        self.from_s, self._cpu = time.monotonic(), cpu_s(server.parts)
        self.to_s, self.shares = 0.0, dict.fromkeys(self._cpu, 0.0)

    @property
    def span(self) -> tuple[float, float]:
        return self.from_s, self.to_s

    def end(self) -> None:
        self.to_s, used = time.monotonic(), cpu_s(self._server.parts)
        self.shares = {name: (used[name] - self._cpu[name]) / (self.to_s - self.from_s) for name in used}


def passed(server: Target, seconds: float) -> Stretch:
    stretch = Stretch(server)
    time.sleep(seconds)
    stretch.end()
    return stretch


async def audited(data: Path, wanted: int) -> int:
    """Rejects of the flooder in the sums, once they have as many as are wanted or it takes too long."""
    async with open_core(Settings(data=data), is_guest=True) as core:
        deadline_s = time.monotonic() + AUDIT_S
        while True:
            top = await core.limiting.reader.top_rejects(60, limit=1_000)
            found = sum(one.count for one in top if one.user_id == MALLORY)
            if found >= wanted or time.monotonic() > deadline_s:
                return found


def measured(server: Target, data: Path, given: Any) -> dict[str, Any]:
    conversation_id = server.direct(MALLORY, "victim")
    with senders(server, given.clients, PAUSE_S) as witness:
        time.sleep(WARM_UP_S)
        quiet = passed(server, given.seconds)
        with flooder(server, conversation_id, MALLORY, per_s=int(given.rate), sockets=given.sockets) as seen:
            flooded = passed(server, given.seconds)
    found: dict[str, Any] = {}
    for name, stretch in (("quiet", quiet), ("flood", flooded)):
        shares = {f"{part}_cpu_share": round(share, 3) for part, share in stretch.shares.items()}
        found[name] = {**witness.figures(stretch.span), **shares}
    counted = uvloop.run(audited(data, seen.refused))
    found["flooder"] = {"wanted": seen.wanted, "sent": seen.sent, "answers": seen.answers, "refused": seen.refused}
    found["audited"] = counted
    return found


def checks_of(found: dict[str, Any]) -> list[Check]:
    quiet, flood = found["quiet"]["ack_p99_ms"], found["flood"]["ack_p99_ms"]
    return [
        Check("ack p99 with the flood over without", flood / quiet if quiet else 0.0, "<=", 1.5, "x"),
        Check("rejects in the audit", found["audited"], "==", found["flooder"]["refused"]),
    ]


def run(given: Any) -> Findings:
    with folder() as data, own_node(data, TIDINGS_LIMITS_SEND=LIMIT) as server:
        found = measured(server, data, given)
    return Findings(
        claim=CLAIM,
        settings={
            "users": given.clients,
            "sends_per_s": round(given.clients / PAUSE_S),
            "limit": LIMIT,
            "flood_per_s": given.rate,
            "flood_sockets": given.sockets,
            "seconds": given.seconds,
        },
        figures=found,
        columns=COLUMNS,
        rows=[[name, *found[name].values()] for name in ("quiet", "flood")],
        checks=checks_of(found),
    )
