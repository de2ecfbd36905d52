"""One run from beginning to verdict: a world, its people, the faults of a seed, healing, the last look, the judge.

The seed decides the plan of faults and what every device chooses to do; what the scheduler of the machine does in
between is its own, so a replay plays the same plan, not the same microseconds.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tidings.clock import Clock, Dice
from tidings.config.settings import Settings
from tidings_proof.faults.faults import FAULTS, Struck
from tidings_proof.faults.schedule import Step, plan
from tidings_proof.judge import (
    checks_agents,
    checks_beside,
    checks_finding,
    checks_live,
    checks_log,
    checks_state,
    checks_threads,
)
from tidings_proof.judge.checker import Finding, Truth, judge
from tidings_proof.judge.dump import Dump, take_dump
from tidings_proof.judge.history import History, read_history
from tidings_proof.judge.remains import look_for_remains
from tidings_proof.people import archiving, rude
from tidings_proof.people.agents import Agents
from tidings_proof.people.device import Device
from tidings_proof.people.workload import RATE, Workload
from tidings_proof.world.processes import Stalls
from tidings_proof.world.scene import Scene
from tidings_proof.world.world import MEMBERS_LARGE, Place, World, open_world

CHECKS = (
    *checks_log.CHECKS,
    *checks_live.CHECKS,
    *checks_state.CHECKS,
    *checks_beside.CHECKS,
    *checks_agents.CHECKS,
    *checks_threads.CHECKS,
    *checks_finding.CHECKS,
)
SETTLE_S = 40.0  # everything that was sent is decided and everybody has it by then
FAULTS_END_S = 60.0  # a fault that is under way when its time is over may need as long as a drain
RECOVER_S = 30.0  # how long a recovery is watched; more than CHECKS allow
PATIENT_S = 30.0  # a device waits so long for an answer when no fault is played
PROBE_S = 6.0  # a message to a connected device, with nothing in its way
ECHO_AGE = 5  # the last so many messages of a device are not repeated: an old one is
TROUBLE = ("lost", "unavailable", "internal")  # how a send fails that should not; a limit is no trouble
RUDENESS = 8.0  # of people who are asked to be rude in certain ways
CROSSINGS = ("became large", "became small")
_BEAT_S = 1.0
_EXCUSE_S = 0.25  # how often the history leaves out the time in which the machine let nobody run


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options: what the command line asks for."""

    seed: int
    seconds: float = 60.0
    faults: tuple[str, ...] | None = None  # None: all usual ones that this world can suffer
    nodes: int = 2
    users: int = 8
    rate: float = RATE
    stores: str = "sqlite+valkey"
    addresses: tuple[str, ...] = ()
    plants: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    settle_s: float = SETTLE_S
    ways: tuple[str, ...] = ()  # to be rude, and much more often than usual; none: all, as usual


class Beat(msgspec.Struct, frozen=True):
    """One second, as the progress line and the picture show it."""

    at_s: float
    acknowledged: int
    unclear: int
    received: int
    under_way: tuple[str, ...]


class Done(msgspec.Struct, frozen=True):
    """A fault that was carried out."""

    fault: str
    began_s: float
    ended_s: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    options: Options
    findings: list[Finding]
    counts: dict[str, int]
    done: list[Done]
    left_out: dict[str, str]  # faults that this world cannot suffer, and why
    beats: list[Beat]
    took_s: float
    history: str  # the file, where it was kept

    @property
    def is_kept(self) -> bool:
        """Of what was looked at."""
        return not any(finding.is_broken for finding in self.findings)

    @property
    def not_looked_at(self) -> list[str]:
        return [finding.id for finding in self.findings if finding.state == "not looked at"]


OnBeat = Callable[[Beat, dict[str, int]], None]


async def torture(
    options: Options,
    settings: Settings | None = None,
    *,
    on_beat: OnBeat = lambda beat, counts: None,
    keep: Path | None = None,
) -> Outcome:
    """`keep`: a folder for everything the run made, to look at afterwards; without it nothing remains."""
    folder = keep or Path(tempfile.mkdtemp(prefix="tt-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return await Run(options, settings or Settings(), folder, on_beat, is_kept=keep is not None).go()
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


class Run:
    def __init__(self, options: Options, settings: Settings, folder: Path, on_beat: OnBeat, *, is_kept: bool) -> None:
        self._options = options
        self._settings = settings
        self._folder = folder
        self._on_beat = on_beat
        self._is_kept = is_kept
        self._clock = Clock()
        self._history = History(folder / "history.jsonl", self._clock)
        self._beats: list[Beat] = []
        self._done: list[Done] = []
        self._left_out: dict[str, str] = {}

    async def go(self) -> Outcome:
        began_s = self._clock.monotonic_s()
        options = self._options
        place = Place(
            self._folder,
            0 if options.addresses else options.nodes,
            options.stores,
            self._settings,
            options.addresses,
            options.plants,
            options.env,
        )
        dice = Dice(f"people {options.seed}")
        async with open_world(place, Dice(f"world {options.seed}")) as world:
            run_id = "" if world.has_own_stores else self._clock.random_id(4)
            people = Workload(world.ports, world.token, self._history, dice, users=options.users, run_id=run_id)
            people.rate = options.rate
            if options.ways:
                people.ways = [getattr(rude, way) for way in options.ways]
                people.rudeness = RUDENESS
            await people.gather()
            agents = Agents(world, people, self._history, dice) if world.is_ours else None
            dump = await self._suffer(world, people, agents)
        self._history.close()
        truth = Truth(dump, people.conversations, people.sleeper)
        findings = judge(read_history(self._history.file), [check(truth) for check in CHECKS])
        return Outcome(
            options=options,
            findings=findings,
            counts=self._counts() | dict(zip(CROSSINGS, truth.crossings(MEMBERS_LARGE), strict=True)),
            done=self._done,
            left_out=self._left_out,
            beats=self._beats,
            took_s=round(self._clock.monotonic_s() - began_s, 1),
            history=str(self._history.file) if self._is_kept else "",
        )

    # --- the way through it -------------------------------------------------------------------------

    async def _suffer(self, world: World, people: Workload, agents: Agents | None) -> Dump:
        struck = Struck(Scene(world, people))
        people.start()
        if agents is not None:
            await agents.start()
        beating = asyncio.create_task(self._beat(world, people, struck), name="beat")
        excusing = asyncio.create_task(self._excuse(world), name="excuse")
        try:
            await self._strike_all(world, struck, people)
            await world.heal()
            for device in people.devices:
                device.patience_s = PATIENT_S
            await self._recover(people)
            people.is_open = False
            await self._settle(people)
            await self._probe(world, people)
            await self._echo(people)
            if agents is not None:
                await agents.finish()
            if "archiver-race" in self._names(world):
                await archiving.run_once(world)
            dump = await take_dump(world, people, self._options.settle_s)
            if agents is not None:
                await agents.look(dump)
            return await look_for_remains(world, people, dump) if world.has_own_stores else dump
        finally:
            beating.cancel()
            excusing.cancel()
            await asyncio.gather(beating, excusing, return_exceptions=True)
            if agents is not None:
                await agents.stop()
            await people.stop()

    def _names(self, world: World) -> Sequence[str]:
        """The faults that are asked for and can be; what cannot be is remembered with its reason."""
        usual = [name for name, fault in FAULTS.items() if fault.is_usual]
        asked = usual if self._options.faults is None else self._options.faults
        self._left_out = {name: why for name in asked if (why := FAULTS[name].lacking(world)) is not None}
        return [name for name in asked if name not in self._left_out]

    async def _strike_all(self, world: World, struck: Struck, people: Workload) -> None:
        began_s = self._clock.monotonic_s()
        tasks: list[asyncio.Task[None]] = []
        for step in plan(self._options.seed, self._options.seconds, self._names(world)):
            await asyncio.sleep(max(0.0, began_s + step.at_s - self._clock.monotonic_s()))
            people.check_alive()
            tasks.append(asyncio.create_task(self._strike(struck, step), name=step.fault))
        await asyncio.sleep(max(0.0, began_s + self._options.seconds - self._clock.monotonic_s()))
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=FAULTS_END_S)
            for task in late:
                task.cancel()

    async def _strike(self, struck: Struck, step: Step) -> None:
        began_s = self._history.now_s()
        self._history.event("fault", text=step.fault, value=msgspec.to_builtins(step))
        try:
            if await struck.strike(step):
                self._done.append(Done(step.fault, began_s, self._history.now_s()))
        except (ConnectionError, FileNotFoundError, ProcessLookupError):
            pass  # what it wanted to hurt is down already
        except (OSError, RuntimeError) as error:
            self._history.event("fault-error", text=f"{step.fault}: {error}")
            self._done.append(Done(step.fault, began_s, self._history.now_s()))

    async def _recover(self, people: Workload) -> None:
        """Until a second passes in which nearly every send was answered with ok."""
        counts, healed_s = self._history.counts, self._history.now_s()
        while self._history.now_s() - healed_s < RECOVER_S:
            before = counts["ok", "send"], sum(counts[error, "send"] for error in TROUBLE)
            await asyncio.sleep(_BEAT_S)
            good = counts["ok", "send"] - before[0]
            bad = sum(counts[error, "send"] for error in TROUBLE) - before[1]
            if good and bad <= 0.05 * (good + bad):
                break
        self._history.event("recovered", value=round(self._history.now_s() - healed_s - _BEAT_S, 3))

    async def _settle(self, people: Workload) -> None:
        people.check_alive()
        settle_s = self._options.settle_s
        deadline_s = self._history.now_s() + settle_s
        while waits := unsettled(people):
            if self._history.now_s() > deadline_s:
                self._history.event("unsettled", text=f"after {settle_s:.0f} s: {'; '.join(waits[:5])}")
                return
            if self._history.now_s() > deadline_s - settle_s / 2:
                await _ask_whether_here(people)
            await asyncio.sleep(0.1)

    async def _probe(self, world: World, people: Workload) -> None:
        """One device of each user goes; then a message in each conversation must reach everybody who is connected."""
        gone = [device for device in people.devices if device.name == "d0"]
        for device in gone:
            device.is_asleep = True
            if device.line is not None:
                device.line.leave()
        await asyncio.sleep(0.5)
        await asyncio.gather(*(self._probe_one(people, id_) for id_ in people.conversations))
        for device in gone:
            device.is_asleep = False
        await self._settle(people)

    async def _probe_one(self, people: Workload, conversation_id: str) -> None:
        there = [one for one in people.devices if not one.is_asleep and _is_in(one, conversation_id)]
        if not there:
            return
        message_id = there[0].compose(conversation_id, f"is anybody in {conversation_id}?")
        deadline_s = self._history.now_s() + PROBE_S
        seq = 0
        while self._history.now_s() < deadline_s:
            await asyncio.sleep(0.05)
            seq = seq or next((s for c, id_, s, _ in reversed(there[0].acked) if id_ == message_id), 0)
            missing = [one for one in there if one.followed[conversation_id].have < seq or not seq]
            if not missing:
                break
        names = [f"{one.user_id}-{one.name}" for one in missing]
        self._history.event("probed", conversation_id=conversation_id, seq=seq, value=names)

    async def _echo(self, people: Workload) -> None:
        """Everybody sends something old once more, in every conversation: nothing may change by it."""
        for device in people.devices:
            latest = {one[0]: one for one in device.acked[:-ECHO_AGE]}
            for conversation_id, message_id, _, text in latest.values():
                await device.send(conversation_id, message_id, text)
        await self._settle(people)

    # --- telling ------------------------------------------------------------------------------------

    async def _beat(self, world: World, people: Workload, struck: Struck) -> None:
        counts = self._history.counts
        names = (("ok", "send"), ("info", "send"), ("event", "recv"))
        before = [counts[name] for name in names]
        while True:
            await asyncio.sleep(_BEAT_S)
            now = [counts[name] for name in names]
            under_way = tuple(name for name, n in struck.under_way.items() if n)
            acknowledged, unclear, received = (b - a for a, b in zip(before, now, strict=True))
            beat = Beat(self._history.now_s(), acknowledged, unclear, received, under_way)
            before = now
            self._beats.append(beat)
            for node in world.nodes:
                usage = node.usage()
                self._history.event("usage", value=[node.name, usage.rss_bytes, usage.files])
            self._on_beat(beat, self._counts())

    async def _excuse(self, world: World) -> None:
        """A busy machine is no fault of Tidings: time in which a process waited for a processor does not count."""
        stalls = Stalls(lambda: [os.getpid(), *(node.pid for node in world.nodes if node.is_running)])
        before_s = self._clock.monotonic_s()
        while True:
            now_s = self._clock.monotonic_s()
            self._history.excuse(stalls.since(now_s - before_s))
            before_s = now_s
            await asyncio.sleep(_EXCUSE_S)

    def _counts(self) -> dict[str, int]:
        counts = self._history.counts
        return {
            "sent": counts["invoke", "send"],
            "acknowledged": counts["ok", "send"],
            "refused": counts["fail", "send"],
            "unclear": counts["info", "send"],
            "received": counts["event", "recv"],
            "reads": counts["ok", "read"] + counts["ok", "unread"],
            "edits and deletes": counts["ok", "edit"] + counts["ok", "delete"],
            "member changes": counts["ok", "join"] + counts["ok", "leave"],
            "pages": counts["ok", "history"] + counts["ok", "inbox"] + counts["ok", "filter"],
            "reactions": counts["ok", "react"],
            "pins, flags and blocks": counts["ok", "pin"] + counts["ok", "flag"] + counts["ok", "block"],
            "drafts and saved": counts["ok", "draft"] + counts["ok", "save"],
            "follows, reads and lists of threads": sum(counts["ok", f] for f in ("follow", "thread-read", "list")),
            "uploads and searches": counts["ok", "upload"] + counts["ok", "search"],
            "connects": counts["event", "connected"],
            "knocks": counts["fail", "knock"],
            "faults": len(self._done),
        }


def unsettled(people: Workload) -> list[str]:
    """Return the devices that still have something to send or to get."""
    waits = [f"{one.user_id}-{one.name} has sends left" for one in people.devices if not one.is_settled]
    for id_ in people.conversations:
        here = [one for one in people.devices if not one.is_asleep and _is_in(one, id_)]
        top = max((one.followed[id_].top for one in here), default=0)
        waits += [
            f"{one.user_id}-{one.name} has {one.followed[id_].have} of {top} in {id_}"
            for one in here
            if not one.is_live or one.followed[id_].have < top or one.followed[id_].ahead
        ]
    return waits


async def _ask_whether_here(people: Workload) -> None:
    """Let each device ask whether its user is still a member: the news of a removal may have been lost."""
    for id_, conversation in people.conversations.items():
        for device in people.devices if conversation.is_churned else ():
            if _is_in(device, id_) and device.is_live:
                await device.page(id_, after_seq=device.followed[id_].have, limit=100)


def _is_in(device: Device, conversation_id: str) -> bool:
    followed = device.followed.get(conversation_id)
    return followed is not None and followed.is_here
