"""Apple's push service, against a stand-in that checks tokens and refuses in Apple's words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.support.clocks import AheadClock
from tests.support.servers import push_services as standins
from tests.support.servers.push_services import KEY_ID, TEAM_ID, TOPIC, ApnsStandin, Refusal, served
from tidings.clock import Clock
from tidings.stores.push.apns import PASS_S, Apns
from tidings.stores.push.http import open_client
from tidings.stores.push.ports import Notice, Outcome, Verdict
from tidings.stores.tables.values import Device

TOKEN = "a1" * 32


@pytest.fixture
def clock() -> AheadClock:
    return AheadClock()


@pytest.fixture
def apple() -> ApnsStandin:
    return ApnsStandin()


@pytest.fixture
async def apns(apple: ApnsStandin, clock: AheadClock) -> AsyncIterator[Apns]:
    async with served(apple) as url:
        made = make(apple, url, clock)
        yield made
        await made.close()


def make(apple: ApnsStandin, url: str, clock: Clock, **fields: Any) -> Apns:
    return Apns(url=url, key=apple.pem, key_id=KEY_ID, team_id=TEAM_ID, topic=TOPIC, clock=clock, **fields)


def notice(token: str = TOKEN, registered_ms: int = 0, **fields: Any) -> Notice:
    device = Device(user_id="bob", device_id="phone", provider="apns", token=token, registered_ms=registered_ms)
    values: dict[str, Any] = {"collapse_id": "c1", "badge": 3, "title": "Alice", "body": "New message"}
    return Notice(device=device, conversation_id="c1", seq_no=7, **(values | fields))


async def test_a_notice_goes_over_http_2_with_badge_title_and_collapse_id(apns: Apns, apple: ApnsStandin) -> None:
    assert await apns.send(notice()) == Outcome(Verdict.SENT)
    [told] = apple.told
    assert (told.token, told.http_version, told.collapse_id) == (TOKEN, "2", "c1")
    assert told.body == {
        "aps": {
            "alert": {"title": "Alice", "body": "New message"},
            "badge": 3,
            "sound": "default",
            "thread-id": "c1",
        },
        "conversation_id": "c1",
        "seq": 7,
    }
    assert (told.headers["apns-push-type"], told.headers["apns-priority"]) == ("alert", "10")


async def test_it_works_over_tls(apple: ApnsStandin, clock: AheadClock, tmp_path: Path) -> None:
    certificate = standins.make_certificate(tmp_path)
    async with served(apple, certificate) as url:
        apns = make(apple, url, clock, client=open_client(tls=certificate.trust))
        assert (await apns.send(notice())).verdict is Verdict.SENT
        assert apple.told[0].http_version == "2"
        await apns.close()


async def test_a_silent_notice_is_a_badge_and_nothing_else(apns: Apns, apple: ApnsStandin) -> None:
    await apns.send(notice(is_silent=True, title=None, body=None))
    assert apple.told[0].body["aps"] == {"badge": 3, "thread-id": "c1"}
    assert apple.told[0].headers["apns-priority"] == "5"


async def test_a_notice_of_a_reply_names_its_thread(apns: Apns, apple: ApnsStandin) -> None:
    await apns.send(notice(thread_seq=4))
    assert apple.told[0].body["thread_seq"] == 4


async def test_a_long_collapse_id_is_shortened_the_same_way_every_time(apns: Apns, apple: ApnsStandin) -> None:
    for _ in range(2):
        assert (await apns.send(notice(collapse_id="c" * 128))).verdict is Verdict.SENT
    first, second = (told.collapse_id for told in apple.told)
    assert first == second and len(first) == 64


async def test_one_provider_token_serves_until_its_hour_is_nearly_over(
    apns: Apns, apple: ApnsStandin, clock: AheadClock
) -> None:
    await apns.send(notice())
    clock.ahead_s = PASS_S - 60
    await apns.send(notice())
    assert len(apple.passes) == 1
    clock.ahead_s = PASS_S + 1
    await apns.send(notice())
    assert len(apple.passes) == 2 and PASS_S < 3600


async def test_an_expired_provider_token_is_renewed_and_the_notice_sent(
    apns: Apns, apple: ApnsStandin, clock: AheadClock
) -> None:
    await apns.send(notice())
    apple.expired.update(apple.passes)
    clock.ahead_s = 5
    assert await apns.send(notice()) == Outcome(Verdict.SENT)
    assert (len(apple.told), len(apple.passes)) == (2, 2)


@pytest.mark.parametrize("refusal", [standins.APNS_UNREGISTERED, standins.APNS_BAD_TOKEN])
async def test_a_dead_token_is_gone(apns: Apns, apple: ApnsStandin, refusal: Refusal) -> None:
    apple.refusals[TOKEN].append(refusal)
    assert await apns.send(notice()) == Outcome(Verdict.GONE, refusal.body["reason"])


async def test_a_token_registered_after_apple_saw_it_die_is_kept(apns: Apns, apple: ApnsStandin) -> None:
    apple.refusals[TOKEN].append(standins.APNS_UNREGISTERED)
    later_ms = standins.APNS_UNREGISTERED.body["timestamp"] + 1
    assert (await apns.send(notice(registered_ms=later_ms))).verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        (standins.APNS_TOO_MANY, Outcome(Verdict.LATER, "TooManyRequests")),
        (standins.APNS_SHUTDOWN, Outcome(Verdict.LATER, "Shutdown", is_for_all=True)),
        (standins.APNS_OTHER_KEY, Outcome(Verdict.LATER, "UnrelatedKeyIdInToken", 60.0, is_for_all=True)),
        (standins.APNS_TOO_LARGE, Outcome(Verdict.REFUSED, "PayloadTooLarge")),
        (Refusal(502, "<html>bad gateway</html>"), Outcome(Verdict.LATER, "502", is_for_all=True)),
    ],
)
async def test_other_refusals_are_put_off_or_given_up(
    apns: Apns, apple: ApnsStandin, refusal: Refusal, outcome: Outcome
) -> None:
    apple.refusals[TOKEN].append(refusal)
    assert await apns.send(notice()) == outcome


async def test_a_key_that_apple_does_not_know_puts_everything_off(apple: ApnsStandin, clock: AheadClock) -> None:
    async with served(apple) as url:
        other = standins.pem_of(ec.generate_private_key(ec.SECP256R1()))
        apns = Apns(url=url, key=other, key_id=KEY_ID, team_id=TEAM_ID, topic=TOPIC, clock=clock)
        outcome = await apns.send(notice())
        assert outcome.verdict is Verdict.LATER and outcome.is_for_all and outcome.reason == "InvalidProviderToken"
        await apns.close()


async def test_a_service_that_does_not_answer_is_put_off(apple: ApnsStandin, clock: AheadClock) -> None:
    async with served(apple) as url:
        pass
    apns = make(apple, url, clock)
    outcome = await apns.send(notice())
    assert outcome == Outcome(Verdict.LATER, "ConnectError", is_for_all=True)
    await apns.close()


@pytest.mark.parametrize(
    "key",
    [
        "nonsense",
        standins.pem_of(ec.generate_private_key(ec.SECP384R1())),
        standins.pem_of(rsa.generate_private_key(65537, 2048)),
    ],
)
def test_a_key_of_another_kind_is_refused_in_one_line(key: str) -> None:
    with pytest.raises(ValueError, match="P-256") as refusal:
        Apns(url="https://localhost", key=key, key_id="k", team_id="t", topic="o", clock=Clock())
    assert "\n" not in str(refusal.value)
