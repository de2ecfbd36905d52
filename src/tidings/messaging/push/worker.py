"""The push worker: takes jobs from a stream and notifies devices through their providers.

A job enters the stream before its reason can be forgotten, and leaves it only when every device was notified or needs
no notification. The workers of all nodes are one consumer group. Other workers take over the jobs of a dead one after
PUSH_IDLE_S; a job that was handed out five times without an end is a dead letter. So a device may be notified twice,
under the same collapse id, and no notification is lost. When a provider says "not now", it gets the rest later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Problem, StoreError, cause_of
from tidings.messaging.push.content import BADGE_COLLAPSE_ID, SUMMARY_COLLAPSE_ID, NoticeContent, Notices
from tidings.messaging.push.device_acks import DeviceAcks, notified
from tidings.messaging.push.job import Job
from tidings.stores.keyspace.call import Call, Keyspace, each_alone
from tidings.stores.keyspace.scripts.push import GivenUp, PushScripts
from tidings.stores.push.ports import Notice, Outcome, Push, Verdict
from tidings.stores.tables.ports import Devices
from tidings.stores.tables.values import Device
from tidings.tasks import Loop

log = logging.getLogger("tidings.notify")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode
_STOP_S = 5.0  # jobs under way may end; other workers take over the rest
_JITTER = 0.2  # of a wait, so that jobs put off together do not come back together


@dataclass(eq=False, repr=False, kw_only=True)
class PushWorker:
    """Without `providers` no job is queued. `count(provider, outcome)` is for the metrics."""

    keyspace: Keyspace
    scripts: PushScripts
    acks: DeviceAcks
    devices: Devices
    notices: Notices
    providers: Mapping[str, Push]
    clock: Clock
    node_id: str
    count: Callable[[str, str], None]
    idle_s: float = bounds.PUSH_IDLE_S
    consumer_idle_s: float = bounds.PUSH_CONSUMER_IDLE_S

    def __post_init__(self) -> None:
        self._idle_ms = int(self.idle_s * 1000)
        self._consumer_idle_ms = int(self.consumer_idle_s * 1000)
        self._badges: dict[str, str] = {}  # users with a new badge -> the one device that knows it, if any
        self._left: dict[tuple[str, str], int] = {}  # (user, device) -> time it was last seen, ms; not written yet
        self._paused: dict[str, float] = {}  # provider -> end of its pause, monotonic s
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_tidy = False
        self._taking = Loop("push jobs", lambda: bounds.PUSH_POLL_S, self._work, is_eager=True)
        self._writing = Loop("push notes", lambda: bounds.ACKS_WRITE_S, self.flush)

    # --- queueing and recording -------------------------------------------------------------------

    @property
    def has_providers(self) -> bool:
        return bool(self.providers)

    async def queue(self, conversation_id: str, newest: Mapping[str, int], thread_seq: int = 0) -> None:
        """Queue a job for each user (-> seq of the entry) with a device that lacks it and was not notified of it.

        `thread_seq`: the entries are replies of this thread."""
        if not self.providers or not newest:
            return
        owned = await self.devices.of_users(newest)
        wanted = [(user_id, [device.device_id for device in mine]) for user_id, mine in owned.items()]
        now_ms = self.clock.now_ms()
        jobs = {
            user_id: Job(
                user_id=user_id,
                made_ms=now_ms,
                conversation_id=conversation_id,
                seq_no=newest[user_id],
                thread_seq=thread_seq,
            )
            for user_id in owned
        }
        place = next((job.place for job in jobs.values()), "")
        seqs = await self.acks.seqs(wanted, conversation_id, place)
        behind = [user_id for (user_id, _), found in zip(wanted, seqs, strict=True) if min(found) < newest[user_id]]
        await self._put([jobs[user_id] for user_id in behind])

    def acknowledged(self, user_id: str, device: str | None, acks: Mapping[str, int]) -> None:
        """Record that a device has everything up to these. Never blocks. A connection without a device is no phone."""
        if self.providers and device is not None:
            self.acks.note(user_id, device, acks)

    def left(self, user_id: str, device: str | None) -> None:
        """Record the end of a device's connection as the time it was last seen. Never blocks."""
        if self.providers and device is not None and len(self._left) < bounds.PUSH_NOTES_MAX:
            self._left[user_id, device] = self.clock.now_ms()

    def badge(self, user_id: str, but_device: str | None = None) -> None:
        """The user read something: send the new badge silently to devices that show another. Never blocks."""
        if not self.providers or (user_id not in self._badges and len(self._badges) >= bounds.PUSH_NOTES_MAX):
            return
        knows = but_device or ""
        self._badges[user_id] = knows if self._badges.get(user_id, knows) == knows else ""

    def start(self) -> None:
        if self.providers:
            self._taking.start()
            self._writing.start()

    async def stop(self) -> None:
        """Take no more jobs. Jobs under way may end; another node does the rest."""
        await self._taking.stop()
        await self._writing.stop()
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=_STOP_S)
            for task in late:
                task.cancel()
        try:
            await self.flush()
        except StoreError as error:
            log.info("device acknowledgements lost; devices may be notified again", extra=cause_of(error))
        try:
            while self._left:
                await self._touch_some()
        except StoreError as error:
            log.info("last-seen times of devices lost", extra=cause_of(error))
        await self._leave()
        for provider in self.providers.values():
            await provider.close()

    async def _leave(self) -> None:
        try:
            await self.tidy(self.node_id)
        except StoreError as error:
            log.debug("worker stays on the list; another node removes it", extra=cause_of(error))

    async def flush(self) -> None:
        """Write the recorded acknowledgements, queue new badges of users with devices, and write last-seen times."""
        await self.acks.flush()
        badges, self._badges = self._badges, {}
        if badges:
            owned = await self.devices.of_users(badges)
            now_ms = self.clock.now_ms()
            await self._put([Job(user_id=id_, made_ms=now_ms, but_device=badges[id_]) for id_ in owned])
        await self._touch_some()

    async def _touch_some(self) -> None:
        """Write few last-seen times at once: acknowledgements come first and must not wait long."""
        some = dict(islice(self._left.items(), bounds.TOUCHED_TOGETHER))
        if some:
            await self.devices.touch(some)
            self._left = {key: at_ms for key, at_ms in self._left.items() if some.get(key) != at_ms}

    async def _put(self, jobs: Sequence[Job]) -> None:
        if jobs:
            await self.keyspace.run([self.scripts.push_add(job.user_id, _encode(job)) for job in jobs])
            self._taking.nudge()

    # --- the worker -------------------------------------------------------------------------------

    async def _work(self) -> bool:
        free = bounds.PUSH_IN_FLIGHT_MAX - len(self._under_way)
        if free > 0 and await self.take(free):
            return True
        if not self._is_tidy:
            await self.tidy()
            self._is_tidy = True
        return False

    async def take(self, limit: int) -> int:
        """Start about `limit` jobs at most; returns their number."""
        shards = range(bounds.PUSH_SHARDS)
        each = max(1, limit // bounds.PUSH_SHARDS)
        take = self.scripts.push_take
        most = bounds.PUSH_DELIVERIES_MAX
        found = await each_alone(
            self.keyspace,
            [take(shard, self.node_id, limit=each, idle_ms=self._idle_ms, deliveries_max=most) for shard in shards],
        )
        for shard, taken in found.items():
            for job_id, raw in taken.dead:
                await self._end(shard, job_id, [self.scripts.push_bury(raw, "no end in five deliveries")])
            for job_id, raw in taken.jobs:
                self._begin(shard, job_id, raw)
        return sum(len(taken.jobs) + len(taken.dead) for taken in found.values())

    async def tidy(self, leaving: str = "") -> int:
        """Remove workers without jobs from the list: the one that leaves, and those long gone. Returns their number."""
        if not self.providers:
            return 0
        tidy, idle_ms = self.scripts.push_tidy, self._consumer_idle_ms
        calls = [tidy(shard, leaving, idle_ms=idle_ms) for shard in range(bounds.PUSH_SHARDS)]
        return sum((await each_alone(self.keyspace, calls)).values())

    def _begin(self, shard: int, job_id: str, raw: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._do(shard, job_id, raw), name="push-job")
        self._under_way.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._taking.nudge()

    async def _do(self, shard: int, job_id: str, raw: bytes) -> None:
        """Do one job. After any failure it stays in the stream, is put off, or becomes a dead letter."""
        try:
            await self._end(shard, job_id, await self._carry_out(shard, raw))
        except StoreError as error:
            log.info("push job left for another worker", extra=cause_of(error, job_id=job_id))
        except Exception:
            log.exception("push job failed", extra={"job_id": job_id})

    async def _end(self, shard: int, job_id: str, calls: Sequence[Call[object]]) -> None:
        """Run the calls that follow from a job, then remove the job: the end comes last."""
        answers = await self.keyspace.run(calls) if calls else []
        if crowded_out := [job for answer in answers if isinstance(answer, GivenUp) for job in answer.jobs]:
            await self.keyspace.run([self.scripts.push_bury(job, "too many wait") for job in crowded_out])
        await self.keyspace.run(self.scripts.push_done(shard, job_id))

    async def _carry_out(self, shard: int, raw: bytes) -> list[Call[object]]:
        """Notify the devices; returns the calls that follow from the outcomes."""
        try:
            job = _decode(raw)
        except msgspec.DecodeError:
            return [self.scripts.push_bury(raw, "not a job")]
        try:
            content = await self.notices.content(job)
            devices = await self._addressees(job, content) if content is not None else []
        except (StoreError, Problem) as error:
            return [self._again(shard, job, Outcome(Verdict.LATER, str(error)), ())]
        if content is None or not devices:
            return []
        outcomes = await asyncio.gather(*(self._send(_notice(job, content, device)) for device in devices))
        await self._forget_gone(devices, outcomes)
        calls = self._follow(shard, job, content, list(zip(devices, outcomes, strict=True)))
        return [*calls, *self._later_summary(shard, job, content)]

    def _later_summary(self, shard: int, job: Job, content: NoticeContent) -> list[Call[object]]:
        """One job for all messages of the same quiet hours: equal jobs are one in the queue."""
        if content.summary_ms is None:
            return []
        summary = Job(user_id=job.user_id, made_ms=content.summary_ms, is_summary=True)
        return [self.scripts.push_put_off(shard, _encode(summary), content.summary_ms)]

    async def _addressees(self, job: Job, content: NoticeContent) -> list[Device]:
        """The devices that do not know it yet."""
        owned = [
            device
            for device in await self.devices.of_user(job.user_id)
            if device.device_id != job.but_device and (not job.device_ids or device.device_id in job.device_ids)
        ]
        ids = [device.device_id for device in owned]
        if not ids:
            return []
        if job.is_summary:
            return owned
        if not job.conversation_id:
            shown = await self.acks.badges(job.user_id, ids)
            return [device for device, badge in zip(owned, shown, strict=True) if badge not in (-1, content.badge)]
        [seqs] = await self.acks.seqs([(job.user_id, ids)], job.conversation_id, job.place)
        return [device for device, seq_no in zip(owned, seqs, strict=True) if seq_no < job.seq_no]

    async def _send(self, notice: Notice) -> Outcome:
        name = notice.device.provider
        provider, now_s = self.providers.get(name), self.clock.monotonic_s()
        if provider is None:
            return Outcome(Verdict.REFUSED, "the provider is not configured")
        if self._paused.get(name, 0.0) > now_s:
            return Outcome(Verdict.LATER, "paused", self._paused[name] - now_s)
        try:
            async with asyncio.timeout(bounds.PUSH_JOB_S):
                outcome = await provider.send(notice)
        except TimeoutError:
            outcome = Outcome(Verdict.LATER, "timeout")
        self.count(name, outcome.verdict.value)
        if outcome.verdict in (Verdict.REFUSED, Verdict.LATER):
            log.warning(
                "notification not delivered",
                extra={"provider": name, "outcome": outcome.verdict.value, "cause": outcome.reason},
            )
        if outcome.is_for_all:
            self._paused[name] = now_s + max(bounds.PUSH_RETRY_S, _asked_s(outcome))
        return outcome

    async def _forget_gone(self, devices: Sequence[Device], outcomes: Sequence[Outcome]) -> None:
        """Remove dead tokens, each only while it is still the token that the provider refused."""
        for device, outcome in zip(devices, outcomes, strict=True):
            if outcome.verdict is Verdict.GONE:
                try:
                    await self.devices.remove(device.user_id, device_id=device.device_id, token=device.token)
                except StoreError as error:
                    log.info("dead push token kept for now", extra=cause_of(error, device_id=device.device_id))

    def _follow(
        self, shard: int, job: Job, content: NoticeContent, results: Sequence[tuple[Device, Outcome]]
    ) -> list[Call[object]]:
        fields: dict[str, int] = {}
        later: list[tuple[Device, Outcome]] = []
        for device, outcome in results:
            if outcome.verdict is Verdict.LATER:
                later.append((device, outcome))
            elif outcome.verdict is not Verdict.GONE and job.conversation_id:
                fields[notified(device.device_id, job.place)] = job.seq_no
            if outcome.verdict is Verdict.SENT:
                fields[device.device_id] = content.badge
        calls = self.acks.set_calls(job.user_id, fields)
        if later:
            longest = max((outcome for _, outcome in later), key=_asked_s)
            calls.append(self._again(shard, job, longest, tuple(device.device_id for device, _ in later)))
        return calls

    def _again(self, shard: int, job: Job, outcome: Outcome, device_ids: tuple[str, ...]) -> Call[object]:
        """Queue the job again for the devices that are left, or bury it when it is too old to matter."""
        now_ms = self.clock.now_ms()
        left = msgspec.structs.replace(job, device_ids=device_ids or job.device_ids, tries=job.tries + 1)
        if now_ms - job.made_ms > bounds.PUSH_AGE_S * 1000:
            return self.scripts.push_bury(_encode(left), f"too old: {outcome.reason}")
        doubled_s = min(bounds.PUSH_RETRY_S * 2 ** min(job.tries, 10), bounds.PUSH_RETRY_S_MAX)
        wait_ms = int(max(doubled_s, _asked_s(outcome)) * 1000 * (1 + _JITTER * self.clock.random_fraction()))
        return self.scripts.push_put_off(shard, _encode(left), now_ms + wait_ms)


def _asked_s(outcome: Outcome) -> float:
    """The pause that the provider asks for, up to PUSH_RETRY_AFTER_S_MAX."""
    return min(outcome.retry_after_s or 0.0, bounds.PUSH_RETRY_AFTER_S_MAX)


def _notice(job: Job, content: NoticeContent, device: Device) -> Notice:
    return Notice(
        device=device,
        collapse_id=job.place or (SUMMARY_COLLAPSE_ID if job.is_summary else BADGE_COLLAPSE_ID),
        badge=content.badge,
        title=content.title,
        body=content.body,
        is_silent=content.is_silent,
        conversation_id=job.conversation_id or None,
        seq_no=job.seq_no or None,
        thread_seq=job.thread_seq or None,
    )
