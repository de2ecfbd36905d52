"""The limiter on its own: one call, exact, on one server and on a cluster; its example runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PYTHONPATH
from tidings.clock import Clock
from tidings.limiter import Limiter, Unavailable, Verdict
from tidings.stores.keyspace.open import AnyKeyspace, open_any
from tidings_proof.world.valkey import ValkeyProcess

ROOT = Path(__file__).resolve().parent.parent


def fresh(valkey: ValkeyProcess) -> str:
    return f"{valkey.url}?prefix=alone{Clock().random_id(4)}."


async def test_exactly_the_limit_passes_in_however_many_programs(valkey: ValkeyProcess) -> None:
    url = fresh(valkey)
    async with Limiter(url, "20/60s") as one, Limiter(url, "20/60s") as other:
        verdicts = await asyncio.gather(*(limiter.admit("k") for limiter in (one, other) for _ in range(100)))
        assert sum(map(bool, verdicts)) == 20
        assert {verdict.limit for verdict in verdicts} == {20}
        refused = [verdict for verdict in verdicts if not verdict]
        assert all(verdict.remaining == 0 and 0 < verdict.retry_after_ms <= 60_001 for verdict in refused)


async def test_several_pass_together_or_not_at_all(valkey: ValkeyProcess) -> None:
    async with Limiter(fresh(valkey), "5/60s") as limiter:
        assert await limiter.admit("k", count=3) == Verdict(True, 5, 2, 0)
        assert not await limiter.admit("k", count=3)
        assert await limiter.admit("k", count=2)
        assert not await limiter.admit("k")


async def test_a_look_uses_nothing_up(valkey: ValkeyProcess) -> None:
    async with Limiter(fresh(valkey), "2/60s") as limiter:
        for _ in range(5):
            assert await limiter.peek("k") == Verdict(True, 2, 2, 0)
        await limiter.admit("k", count=2)
        seen = await limiter.peek("k")
        assert not seen and 0 < seen.retry_after_ms <= 60_001


async def test_after_the_window_it_passes_again(valkey: ValkeyProcess) -> None:
    async with Limiter(fresh(valkey), "1/1s") as limiter:
        assert await limiter.admit("k")
        verdict = await limiter.admit("k")
        assert not verdict
        async with asyncio.timeout(60):
            while not await limiter.admit("k"):
                await asyncio.sleep(0.02)


async def test_the_first_question_opens_it_and_it_may_be_closed_twice(valkey: ValkeyProcess) -> None:
    limiter = Limiter(fresh(valkey), "1/60s")
    assert await limiter.admit("an address: 2001:db8::1")
    assert await limiter.admit("another")
    await limiter.close()
    await limiter.close()


async def test_first_questions_that_come_all_at_once_open_it_once(
    valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    async def counted(*words: Any) -> AnyKeyspace:
        opened.append(words)
        return await open_any(*words)

    monkeypatch.setattr("tidings.limiter.open_any", counted)
    limiter = Limiter(fresh(valkey), "20/60s")
    try:
        verdicts = await asyncio.gather(*(limiter.admit("k") for _ in range(50)))
    finally:
        await limiter.close()
    assert sum(map(bool, verdicts)) == 20 and len(opened) == 1


async def test_first_questions_that_fail_fail_together_and_the_next_tries_anew(
    valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    async def refused(*words: Any) -> AnyKeyspace:
        opened.append(words)
        await asyncio.sleep(0)
        raise Unavailable("not there yet")

    limiter = Limiter(fresh(valkey), "20/60s")
    with monkeypatch.context() as patch:
        patch.setattr("tidings.limiter.open_any", refused)
        answers = await asyncio.gather(*(limiter.admit("k") for _ in range(10)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 10 and len(opened) == 1
    assert await limiter.admit("k")
    await limiter.close()


async def test_who_gives_up_waiting_for_it_to_open_leaves_nothing_open_after_close(
    valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, may_open = [], asyncio.Event()

    async def slow(*words: Any) -> AnyKeyspace:
        await may_open.wait()
        opened.append(await open_any(*words))
        return opened[-1]

    monkeypatch.setattr("tidings.limiter.open_any", slow)
    limiter = Limiter(fresh(valkey), "20/60s")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await limiter.admit("k")
    closing = asyncio.ensure_future(limiter.close())
    may_open.set()
    await closing
    assert len(opened) == 1 and not opened[0].is_up()


def test_a_limiter_that_was_closed_opens_again_in_another_loop(valkey: ValkeyProcess) -> None:
    limiter = Limiter(fresh(valkey), "20/60s")

    async def ask() -> int:
        try:
            return sum(map(bool, await asyncio.gather(*(limiter.admit("k") for _ in range(8)))))
        finally:
            await limiter.close()

    assert [asyncio.run(ask()) for _ in range(3)] == [8, 8, 4]


@pytest.mark.parametrize("count", [-1, 0, 4])
async def test_a_number_that_can_never_pass_is_refused(valkey: ValkeyProcess, count: int) -> None:
    async with Limiter(fresh(valkey), "3/60s") as limiter:
        with pytest.raises(ValueError, match="1 to 3 requests"):
            await limiter.admit("k", count=count)
        assert (await limiter.peek("k")).remaining == 3


@pytest.mark.parametrize("limit", ["off", "100", "0/60s", "1/0s", ""])
def test_what_is_no_limit_is_refused(limit: str) -> None:
    with pytest.raises(ValueError):
        Limiter("redis://localhost:1", limit)


@pytest.mark.parametrize("key", ["", "a{b", "a}b", "x" * 513])
async def test_what_is_no_key_is_refused(valkey: ValkeyProcess, key: str) -> None:
    async with Limiter(fresh(valkey), "1/60s") as limiter:
        with pytest.raises(ValueError):
            await limiter.admit(key)


async def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(Unavailable):
        await Limiter("redis://127.0.0.1:1", "1/60s").admit("k")


def test_the_example_runs(valkey: ValkeyProcess) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "limiter.py"), fresh(valkey)],
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "20 of 200 passed" in done.stdout and "somebody else has 20 left" in done.stdout
    assert len((ROOT / "examples" / "limiter.py").read_text("utf-8").splitlines()) < 40
