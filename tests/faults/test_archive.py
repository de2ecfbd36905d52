"""Archivers killed (kill -9) anywhere, and two at once: every message is readable, byte for byte, at any time."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.messaging.archive_node import DAY_MS
from tests.support.paths import PYTHONPATH
from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.clock import Clock, Dice
from tidings.config.settings import Settings
from tidings.messaging.archive.segment import Segment
from tidings.model import Content, Entry
from tidings.node.graph import Core, open_core
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.values import Group
from tidings_proof.world.dynamodb import DynamoLocal
from tidings_proof.world.valkey import ValkeyProcess

ROOT = Path(__file__).resolve().parent.parent.parent
Texts = dict[str, list[str]]  # conversation_id -> the texts of seq 1, 2, …
LETTERS = "abc dé漢🙂\n\"'\\0 "


async def fill(core: Core, dice: Dice, conversations: int, messages: int) -> Texts:
    """Old messages with texts of every kind."""
    texts: Texts = {}
    for _ in range(conversations):
        view, _ = await core.directory.create("alice", kind="channel", members=["bob"])
        id_ = view.head.conversation_id
        texts[id_] = ["".join(dice.choices(LETTERS, k=dice.randint(0, 60))) for _ in range(messages)]
        refused = await core.tables.log.append(list(_groups(id_, texts[id_], Clock().now_ms() - 40 * DAY_MS)))
        assert not any(refused)
    return texts


def _groups(conversation_id: str, texts: Sequence[str], began_ms: int) -> Iterator[Group]:
    entries = [
        Entry(
            conversation_id=conversation_id,
            seq_no=seq_no,
            kind="message",
            sent_ms=began_ms + seq_no,
            message_id=f"m{seq_no}",
            sender_id="alice",
            content=Content(text),
        )
        for seq_no, text in enumerate(texts, start=1)
    ]
    for at in range(0, len(entries), GROUP_ENTRIES_MAX):
        yield Group(conversation_id=conversation_id, entries=tuple(entries[at : at + GROUP_ENTRIES_MAX]))


async def check_nothing_is_lost(core: Core, texts: Texts) -> int:
    """Each text is in its row, or its row names an object that has it and can be read. How many are archived."""
    archived = 0
    segments: dict[str, Segment] = {}
    for id_, expected in texts.items():
        segments.clear()
        rows = await core.tables.log.page(id_, after=0, before=1 << 53, limit=len(expected) + 1, newest_first=False)
        assert len(rows) == len(expected)
        for row, text in zip(rows, expected, strict=True):
            if row.s3_ref is None:
                assert row.text == text
                continue
            archived += 1
            if row.s3_ref not in segments:
                segments[row.s3_ref] = await core.cold.segments.read(id_, row.s3_ref)
            assert row.text is None and segments[row.s3_ref].contents[row.seq_no].text == text
    return archived


async def check_history(core: Core, texts: Texts) -> None:
    for id_, expected in texts.items():
        found: list[str | None] = []
        before: int | None = None
        while True:
            page = await core.history.page("bob", id_, before_seq=before, limit=100)
            found += [entry.text for entry in page.entries]
            before = page.next_before_seq
            if before is None:
                break
        assert found[::-1] == expected


async def check_tidy(core: Core, texts: Texts) -> None:
    """Everything is archived; no object too many, and nothing left to look at."""
    assert await check_nothing_is_lost(core, texts) == sum(map(len, texts.values()))
    refs = set()
    for id_, expected in texts.items():
        rows = await core.tables.log.page(id_, after=0, before=1 << 53, limit=len(expected), newest_first=False)
        refs |= {(id_, row.s3_ref) for row in rows}
    status = await core.cold.archiving.status()
    assert (status.segments, status.rechecks, status.damaged) == (len(refs), 0, [])


class Workers:
    """Archivers in processes of their own. One with another prefix of the keyspace knows nothing of the lease."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, kill_at: int = 0, prefix: str = "") -> subprocess.Popen[str]:
        settings = self._settings
        keyspace = settings.keyspace + prefix
        words = [str(settings.data), keyspace, settings.tables, settings.blobs, str(kill_at)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.nodes.archive_worker", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    async def ended(self, process: subprocess.Popen[str]) -> int:
        out, err = await asyncio.to_thread(process.communicate, None, 100)
        assert process.returncode in (0, 1, -9), out + err
        return process.returncode

    async def until(self, kill_at: int, prefix: str = "") -> int:
        """One, until it ends. The lease of a killed one is not waited for: the next has another prefix."""
        return await self.ended(self.start(kill_at, prefix))

    def clean_up(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def workers(settings: Settings) -> Iterator[Workers]:
    workers = Workers(settings)
    yield workers
    workers.clean_up()


async def test_killed_at_any_step_and_two_at_once_nothing_is_lost(settings: Settings, workers: Workers) -> None:
    async with open_core(settings) as core:
        texts = await fill(core, Dice(1), conversations=20, messages=50)
        archived = 0
        for number, kill_at in enumerate((9, 90, 100)):
            assert await workers.until(kill_at, f"{number}.") == -9
            now_archived = await check_nothing_is_lost(core, texts)
            assert now_archived >= archived
            archived = now_archived
        assert 0 < archived < 1_000
        both = [workers.start(prefix=f"{name}.") for name in ("a", "b")]
        codes = [await workers.ended(process) for process in both]
        assert 0 in codes
        await check_nothing_is_lost(core, texts)
        assert await workers.until(0, "last.") == 0
        await check_history(core, texts)
        await check_tidy(core, texts)


@pytest.mark.long
async def test_every_step_is_a_good_place_to_be_killed(settings: Settings, workers: Workers) -> None:
    """One message after another is deleted and archived meanwhile, so that segments are rewritten too."""
    async with open_core(settings) as core:
        texts = await fill(core, Dice(2), conversations=2, messages=120)
        ids = list(texts)
        for step in range(1, 40):
            deleted = step if step <= 30 else 0
            if deleted and step % 2:
                await core.rewrites.delete("alice", ids[0], deleted)
            code = await workers.until(step, f"{step}.")
            await check_deleted(core, texts, ids[0], step)
            if code == 0:
                break
        else:
            raise AssertionError("a pass has no more than 39 steps here")
        assert await workers.until(0, "last.") == 0
        await check_deleted(core, texts, ids[0], step)
        assert (await core.cold.archiving.status()).rechecks == 0


async def check_deleted(core: Core, texts: Texts, conversation_id: str, step: int) -> None:
    gone = {seq_no for seq_no in range(1, min(step, 30) + 1) if seq_no % 2}
    for id_, expected in texts.items():
        for start in range(0, len(expected), 100):
            page = await core.history.page("bob", id_, after_seq=start, limit=100)
            for entry in page.entries:
                is_gone = id_ == conversation_id and entry.seq_no in gone
                if entry.seq_no <= len(expected):
                    assert entry.text == (None if is_gone else expected[entry.seq_no - 1])


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_hundred_thousand_messages_ten_kills_and_two_at_once(settings: Settings, workers: Workers) -> None:
    async with open_core(settings) as core:
        dice = Dice(3)
        texts = await fill(core, dice, conversations=40, messages=2_500)
        archived = kills = 0
        while kills < 10:
            # Two at once, now and then: the later one takes over, whatever the lease says.
            pair = [workers.start(dice.randint(5, 120), f"{kills}{name}.") for name in ("a", "b")[: 1 + kills % 2]]
            codes = [await workers.ended(process) for process in pair]
            kills += codes.count(-9)
            now_archived = await check_nothing_is_lost(core, texts)
            assert now_archived >= archived
            archived = now_archived
        assert 0 < archived < 100_000
        both = [workers.start(prefix=f"{name}.") for name in ("x", "y")]
        await kill_one_by_the_clock(both, dice)
        for process in both:
            await workers.ended(process)
        while await workers.until(0, "last.") != 0:
            pass
        await check_history(core, texts)
        await check_tidy(core, texts)


async def kill_one_by_the_clock(processes: Sequence[subprocess.Popen[str]], dice: Dice) -> None:
    """From outside, at a moment that nobody chose."""
    until_s = time.monotonic() + 1 + dice.random()
    while time.monotonic() < until_s and processes[0].poll() is None:
        await asyncio.sleep(0.01)
    processes[0].kill()


@pytest.mark.long
async def test_the_same_on_dynamodb_and_s3(
    valkey: ValkeyProcess, settings: Settings, dynamodb: DynamoLocal, s3: S3Server, s3_credentials: None
) -> None:
    prefix = fresh_prefix()
    url = dynamodb.url(prefix)
    await dynamodb_adapter.create(url, Clock())
    settings = dataclasses.replace(settings, tables=url, blobs=s3.url(f"archive-{prefix}"))
    workers = Workers(settings)
    try:
        async with open_core(settings) as core:
            texts = await fill(core, Dice(4), conversations=3, messages=300)
            for number, kill_at in enumerate((6, 15, 22)):
                assert await workers.until(kill_at, f"{number}.") == -9
                await check_nothing_is_lost(core, texts)
            both = [workers.start(prefix=f"{name}.") for name in ("a", "b")]
            for process in both:
                await workers.ended(process)
            while await workers.until(0, "last.") != 0:
                pass
            await check_history(core, texts)
            await check_tidy(core, texts)
    finally:
        workers.clean_up()
