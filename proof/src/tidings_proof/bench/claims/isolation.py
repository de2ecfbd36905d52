"""One user, one conversation or one big inbox costs the others nothing to speak of, whatever it asks for.

Many users send within their budget, in a process of their own, all the time. The limits are the defaults. One nuisance
after another works on the same node (load/nuisances.py), at last users with very big inboxes who come back to a
keyspace that knows nothing of them. It is quiet before and after each. The p99 of the acknowledgements in a stretch is
compared with that of the quiet on both sides of it, because a shared machine changes its speed within minutes.

A second node, the neighbour, is left in peace. It has as many users, who feel only that the machine is busy: nuisances
and their clients share its cores. So the p99 of the neighbour is what a node could reach at best in that stretch.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import uvloop

from tidings.config.settings import Limits
from tidings_proof.bench.claims.flood import PAUSE_S, WARM_UP_S, Stretch, passed
from tidings_proof.bench.load.nuisances import KINDS, Line, Tally, nuisance
from tidings_proof.bench.load.senders import Witness, senders
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder, own_node, token
from tidings_proof.bench.target.seeding import groups, tables_in
from tidings_proof.bench.target.target import Target

Span = tuple[float, float]  # from a time to another
CLAIM = "ack p99 of users within budget, beside users who make work for the node"
COLUMNS = [
    "",
    "ack p50 ms",
    "ack p99 ms",
    "acks",
    "over quiet",
    "neighbour p99 ms",
    "over neighbour",
    "node CPU share",
    "Valkey CPU share",
    "sent",
]
QUIET, REBUILD = "quiet", "rebuild"
PARTS = (*KINDS, REBUILD)
RATIO_MAX = 2.0  # of a stretch's p99 over that of the quiet around it
NO_WITNESS = 1_000.0  # the ratio where there is none: a target that cannot be missed would prove nothing
CONNECTED_S = 20.0  # all users with big inboxes are connected by then
REST_S = 3.0  # between two nuisances, until nothing of the first is left
GIVEN_UP_S = 180.0
AGAIN_S = (0.25, 4.0)  # between two tries to connect, the first and the longest pause
_COUNTED = re.compile(rb'"total_unread":\d')


async def seed(data: Path, users: int, conversations: int) -> None:
    """Users whose every conversation has one unread message."""
    last_ms = int(time.time() * 1000) - 10 * 60_000
    async with tables_in(data) as tables:
        for user in range(users):
            ids = [f"big{user}-{number}" for number in range(conversations)]
            await groups(tables, ids, [f"writer{user}", f"big{user}"], last_ms)


class Returns:
    """Returns: when each user was connected, and when its counts were there, since the beginning."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._began_s = time.monotonic()
        self.tries = 0
        self.connected_s: dict[str, float] = {}
        self.counted_s: dict[str, float] = {}

    async def come(self, user_id: str) -> None:
        """Connect like a client: again after a pause when the server closes, and stay until the counts are there."""
        pause_s, longest_s = AGAIN_S
        while user_id not in self.counted_s:
            try:
                await self._try(user_id)
            except (OSError, EOFError, asyncio.IncompleteReadError):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, longest_s)

    async def _try(self, user_id: str) -> None:
        self.tries += 1
        line = await Line.open(self._url, Tally())
        try:
            await line.upgrade()
            said = await line.sign_in(token(user_id))
            self.connected_s.setdefault(user_id, time.monotonic() - self._began_s)
            while not _COUNTED.search(said):
                said = said[-64:] + await line.read()
            self.counted_s[user_id] = time.monotonic() - self._began_s
        finally:
            line.close()

    def figures(self, users: int) -> dict[str, float]:
        """The times of the last user; GIVEN_UP_S when somebody did not come back at all."""
        found: dict[str, float] = {"tries": self.tries}
        for name, times_s in (("connected_s", self.connected_s), ("counted_s", self.counted_s)):
            found[name] = round(max(times_s.values()), 1) if len(times_s) == users else GIVEN_UP_S
        return found


async def come_back(url: str, users: int) -> Returns:
    returns = Returns(url)
    coming = [asyncio.create_task(returns.come(f"big{user}"), name=f"big{user}") for user in range(users)]
    await asyncio.wait(coming, timeout=GIVEN_UP_S)
    for task in coming:
        task.cancel()
    return returns


def users_of(kind: str, given: Any) -> list[str]:
    """One user with many sockets, or the members of a channel."""
    if kind == "burst":
        return [f"member{number}" for number in range(given.members)]
    return ["mallory"] * given.sockets


class Course:
    """Course of the stretches: one for each nuisance, with quiet before the first and after each."""

    def __init__(self, server: Target, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self.quiet: list[Stretch] = []
        self.disturbed: dict[str, Stretch] = {}

    def calm(self, after_s: float) -> None:
        time.sleep(after_s)
        self.quiet.append(passed(self._server, self._seconds))

    def spans(self) -> dict[str, tuple[list[Span], list[Span]]]:
        """The spans of each stretch, and those of the quiet that it is compared with."""
        quiet = [stretch.span for stretch in self.quiet]
        around = {part: quiet[at : at + 2] for at, part in enumerate(self.disturbed)}
        return {QUIET: (quiet, quiet)} | {part: ([self.disturbed[part].span], around[part]) for part in around}


def measured(server: Target, neighbour: Target, given: Any, big_users: int) -> dict[str, Any]:
    parts = [part for part in PARTS if given.only in (None, part)]
    members = users_of("burst", given)
    channel = server.together("channel", members) if "burst" in parts else ""
    tallies: dict[str, Tally] = {}
    returns: Returns | None = None
    with senders(server, given.clients, PAUSE_S) as witness, senders(neighbour, given.clients, PAUSE_S) as control:
        course = Course(server, given.seconds)
        course.calm(WARM_UP_S)
        for kind in (part for part in parts if part != REBUILD):
            with nuisance(server, kind, users_of(kind, given), channel, given.messages) as tallies[kind]:
                course.disturbed[kind] = passed(server, given.seconds)
            course.calm(REST_S)
        if REBUILD in parts:
            stretch = course.disturbed[REBUILD] = Stretch(server)
            returns = uvloop.run(come_back(server.url, big_users))
            stretch.end()
            course.calm(REST_S)
    found = {name: figures_of(*spans, witness, control) for name, spans in course.spans().items()}
    for name, stretch in {QUIET: course.quiet[0], **course.disturbed}.items():
        found[name] |= {f"{part}_cpu_share": round(share, 3) for part, share in stretch.shares.items()}
        found[name]["sent"] = tallies[name].sent if name in tallies else 0
    if returns is not None:
        found["returns"] = returns.figures(big_users)
    return found


def figures_of(spans: list[Span], quiet: list[Span], witness: Witness, control: Witness) -> dict[str, float]:
    figures, neighbour = witness.figures(*spans), control.figures(*spans)
    return {
        **figures,
        "over_quiet": round(ratio_of(figures, witness.figures(*quiet)), 2),
        "neighbour_p99_ms": neighbour["ack_p99_ms"],
        "over_neighbour": round(ratio_of(figures, neighbour), 2),
    }


def ratio_of(figures: dict[str, float], others: dict[str, float]) -> float:
    """How much slower than the others. A stretch in which nobody was acknowledged is as slow as can be."""
    if not figures["acks"] or not others["acks"]:
        return NO_WITNESS
    return figures["ack_p99_ms"] / max(others["ack_p99_ms"], 0.01)


def checks_of(found: dict[str, Any]) -> list[Check]:
    parts = [part for part in PARTS if part in found]
    checks = [Check(f"ack p99 over quiet: {part}", found[part]["over_quiet"], "<=", RATIO_MAX, "x") for part in parts]
    if "returns" in found:
        checks.append(Check("big inboxes connected", found["returns"]["connected_s"], "<=", CONNECTED_S, "s"))
    return checks


def default_limits() -> dict[str, str]:
    """The limits of a node that nobody has set up, as variables."""
    limits = Limits()
    return {f"TIDINGS_LIMITS_{name.upper()}": str(getattr(limits, name)) for name in Limits.__dataclass_fields__}


def run(given: Any) -> Findings:
    limits = default_limits()
    with folder() as data, folder() as beside:
        if given.only in (None, REBUILD):
            uvloop.run(seed(data, given.inboxes, given.conversations))
        with own_node(data, **limits) as server, own_node(beside, **limits) as neighbour:
            found = measured(server, neighbour, given, given.inboxes)
    return Findings(
        claim=CLAIM,
        settings={
            "users": given.clients,
            "sends_per_s": round(given.clients / PAUSE_S),
            "sockets": given.sockets,
            "members": given.members,
            "messages_of_a_member": given.messages,
            "big_inboxes": given.inboxes,
            "conversations_of_each": given.conversations,
            "seconds": given.seconds,
        },
        figures=found,
        columns=COLUMNS,
        rows=[[name, *found[name].values()] for name in (QUIET, *PARTS) if name in found],
        checks=checks_of(found),
    )
