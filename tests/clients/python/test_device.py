from __future__ import annotations

from tests.support.devices.scripted_server import StillClock
from tidings_client.bounds import SINCE_SLACK_S
from tidings_client.connection.tokens import Tokens
from tidings_client.device import Device
from tidings_client.sending.drafts import Draft, MemoryDrafts
from tidings_client.values import Connected, Hello, Interrupted, ReadState


def device_of(clock: StillClock, resume: dict[str, int] | None = None, since: int | None = None) -> Device:
    return Device("http://node", Tokens("t", clock), clock, "phone", MemoryDrafts(), resume or {}, since, no_upload)


async def no_upload(draft: Draft, path: str) -> str:
    raise AssertionError


def hello(store_epoch: str = "e", server_time: int = 1_000) -> Hello:
    return Hello(
        id=1,
        protocol=1,
        user_id="alice",
        connection_id="x",
        server_time=server_time,
        server_version="0",
        store_epoch=store_epoch,
        ping_interval_ms=25_000,
        total_unread=3,
        unread_conversations=1,
    )


async def test_a_first_connect_asks_for_nothing_that_was_missed() -> None:
    frame = device_of(StillClock()).connect_frame("t")
    assert (frame.device, frame.resume, frame.since) == ("phone", {}, None)


async def test_an_earlier_run_is_continued_where_it_ended() -> None:
    frame = device_of(StillClock(), {"c1": 7}, 500).connect_frame("t")
    assert (frame.resume, frame.since) == ({"c1": 7}, 500)


async def test_a_short_connection_does_not_move_what_is_known_and_a_long_one_does() -> None:
    clock = StillClock()
    device = device_of(clock)
    device.welcomed(hello())
    assert device.connect_frame("t").since == 1_000
    device.interrupted(None, 1, clock.now_s + 5)
    assert device.connect_frame("t").since == 1_000, "it may not have heard yet what it had missed"
    device.welcomed(hello(server_time=20_000))
    device.interrupted(None, 1, clock.now_s + SINCE_SLACK_S + 10)
    assert device.connect_frame("t").since == 30_000


async def test_an_attempt_that_found_nobody_does_not_move_what_is_known() -> None:
    clock = StillClock()
    device = device_of(clock)
    device.welcomed(hello())
    device.interrupted(None, 1, clock.now_s + SINCE_SLACK_S + 10)
    clock.now_s += 3_600
    device.interrupted(None, 1, None)
    assert device.connect_frame("t").since == 11_000


async def test_the_badge_and_the_connection_are_told() -> None:
    device = device_of(StillClock())
    events = device.streams.open(lambda event: event)
    device.welcomed(hello())
    device.welcomed(hello("another"))
    device.interrupted(4004, 0.5, None)
    assert device.total_unread == 3 and device.user_id == "alice"
    assert [await anext(events) for _ in range(3)] == [
        Connected(hello()),
        Connected(hello("another"), True),
        Interrupted(4004, 0.5),
    ]
    device.counted(ReadState("c1", 5, 0, False, None, 0))
    assert device.total_unread == 0
    assert not device.is_full()
