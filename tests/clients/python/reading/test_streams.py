from __future__ import annotations

import asyncio
import gc

import pytest

from tidings_client.bounds import EVENTS_MAX, EVENTS_PAUSE
from tidings_client.errors import Lagging
from tidings_client.reading.streams import Streams
from tidings_client.values import Event, Interrupted


def every(event: Event) -> Event:
    return event


def number(n: int) -> Interrupted:
    return Interrupted(n, 0)


async def test_each_stream_gets_everything_from_the_moment_it_is_made() -> None:
    streams = Streams(lambda: None)
    first = streams.open(every)
    streams.put(number(1))
    second = streams.open(every)
    streams.put(number(2))
    assert [await anext(first), await anext(first)] == [number(1), number(2)]
    assert await anext(second) == number(2)


async def test_whoever_waits_is_woken() -> None:
    streams = Streams(lambda: None)
    stream = streams.open(every)
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    streams.put(number(1))
    assert await waiting == number(1)


async def test_the_end_comes_after_what_waits_and_also_to_later_streams() -> None:
    streams = Streams(lambda: None)
    stream = streams.open(every)
    streams.put(number(1))
    streams.end(StopAsyncIteration())
    assert [event async for event in stream] == [number(1)]
    assert [event async for event in streams.open(every)] == []


async def test_a_stream_that_nobody_reads_asks_for_a_pause_and_says_when_there_is_room() -> None:
    room: list[bool] = []
    streams = Streams(lambda: room.append(True))
    stream = streams.open(every)
    for n in range(EVENTS_PAUSE):
        streams.put(number(n))
    assert streams.is_full
    while not room:
        await anext(stream)
    assert not streams.is_full


async def test_a_stream_that_nobody_holds_fills_nothing_and_leaves_room() -> None:
    room: list[bool] = []
    streams = Streams(lambda: room.append(streams.is_full))
    stream = streams.open(every)
    for n in range(EVENTS_PAUSE):
        streams.put(number(n))
    del stream
    gc.collect()
    assert not streams.is_full and room == [False]


async def test_a_stream_that_lags_hopelessly_ends_with_an_error() -> None:
    streams = Streams(lambda: None)
    stream = streams.open(every)
    for n in range(EVENTS_MAX + 1):
        streams.put(number(n))
    for n in range(EVENTS_MAX):
        assert await anext(stream) == number(n)
    with pytest.raises(Lagging):
        await anext(stream)
