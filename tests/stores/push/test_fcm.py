"""Google's push service, against a stand-in that grants OAuth tokens and refuses in Google's words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.clocks import AheadClock
from tests.support.servers import push_services as standins
from tests.support.servers.push_services import FcmStandin, Refusal, served
from tidings.clock import Clock
from tidings.stores.push.fcm import Fcm
from tidings.stores.push.ports import Notice, Outcome, Verdict
from tidings.stores.tables.values import Device

TOKEN = "fcm-token-of-bobs-phone:APA91b"


@pytest.fixture
def clock() -> AheadClock:
    return AheadClock()


@pytest.fixture
async def google() -> AsyncIterator[FcmStandin]:
    standin = FcmStandin()
    async with served(standin) as standin.url:
        yield standin


@pytest.fixture
async def fcm(google: FcmStandin, clock: AheadClock) -> AsyncIterator[Fcm]:
    made = Fcm(url=google.url, credentials=google.credentials, clock=clock)
    yield made
    await made.close()


def notice(**fields: Any) -> Notice:
    device = Device(user_id="bob", device_id="phone", provider="fcm", token=TOKEN)
    values: dict[str, Any] = {"collapse_id": "c1", "badge": 3, "title": "Alice", "body": "New message"}
    return Notice(device=device, conversation_id="c1", seq_no=7, **(values | fields))


async def test_a_notice_carries_title_badge_and_collapse_id_for_both_systems(fcm: Fcm, google: FcmStandin) -> None:
    assert await fcm.send(notice()) == Outcome(Verdict.SENT)
    [told] = google.told
    assert told.http_version == "2"
    assert told.body["notification"] == {"title": "Alice", "body": "New message"}
    assert told.body["data"] == {"badge": "3", "collapse_id": "c1", "conversation_id": "c1", "seq": "7"}
    android, apns = told.body["android"], told.body["apns"]
    assert (android["collapse_key"], android["priority"], android["notification"]["tag"]) == ("c1", "HIGH", "c1")
    assert apns["headers"]["apns-collapse-id"] == "c1" and apns["payload"]["aps"]["badge"] == 3


async def test_a_silent_notice_is_data_alone(fcm: Fcm, google: FcmStandin) -> None:
    await fcm.send(notice(is_silent=True, title=None, body=None))
    [told] = google.told
    assert "notification" not in told.body and "notification" not in told.body["android"]
    assert told.body["apns"]["payload"] == {"aps": {"badge": 3}}
    assert (told.body["data"]["badge"], told.body["android"]["priority"]) == ("3", "NORMAL")


async def test_one_grant_serves_all_who_wait_for_it_until_shortly_before_its_end(
    fcm: Fcm, google: FcmStandin, clock: AheadClock
) -> None:
    await asyncio.gather(*(fcm.send(notice()) for _ in range(10)))
    clock.ahead_s = 3200
    await fcm.send(notice())
    assert (len(google.told), len(google.granted)) == (11, 1)
    clock.ahead_s = 3500
    await fcm.send(notice())
    assert len(google.granted) == 2


async def test_an_expired_grant_is_renewed_once_and_the_notices_sent(fcm: Fcm, google: FcmStandin) -> None:
    await fcm.send(notice())
    google.expired.update(google.granted)
    outcomes = await asyncio.gather(*(fcm.send(notice()) for _ in range(10)))
    assert set(outcomes) == {Outcome(Verdict.SENT)}
    assert (len(google.told), len(google.granted)) == (11, 2)


@pytest.mark.parametrize("refusal", [standins.FCM_UNREGISTERED, standins.FCM_BAD_TOKEN])
async def test_a_dead_token_is_gone(fcm: Fcm, google: FcmStandin, refusal: Refusal) -> None:
    google.refusals[TOKEN].append(refusal)
    assert (await fcm.send(notice())).verdict is Verdict.GONE


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        (standins.FCM_QUOTA_OF_DEVICE, Outcome(Verdict.LATER, "QUOTA_EXCEEDED", 37.0)),
        (standins.FCM_QUOTA_OF_PROJECT, Outcome(Verdict.LATER, "RESOURCE_EXHAUSTED", 60.0, is_for_all=True)),
        (standins.FCM_UNAVAILABLE, Outcome(Verdict.LATER, "UNAVAILABLE", 12.0, is_for_all=True)),
        (standins.FCM_NO_PERMISSION, Outcome(Verdict.LATER, "PERMISSION_DENIED", 60.0, is_for_all=True)),
        (standins.FCM_OTHER_SENDER, Outcome(Verdict.REFUSED, "SENDER_ID_MISMATCH")),
        (standins.FCM_BAD_FIELD, Outcome(Verdict.REFUSED, "INVALID_ARGUMENT")),
    ],
)
async def test_other_refusals_are_put_off_as_asked_or_given_up(
    fcm: Fcm, google: FcmStandin, refusal: Refusal, outcome: Outcome
) -> None:
    google.refusals[TOKEN].append(refusal)
    assert await fcm.send(notice()) == outcome


async def test_an_account_that_google_refuses_puts_everything_off(fcm: Fcm, google: FcmStandin) -> None:
    google.grant_refusals.append(standins.OAUTH_BAD_SIGNATURE)
    outcome = await fcm.send(notice())
    assert (outcome.verdict, outcome.reason, outcome.is_for_all) == (Verdict.LATER, "invalid_grant", True)
    assert await fcm.send(notice()) == Outcome(Verdict.SENT)


@pytest.mark.parametrize(
    "credentials", ["nonsense", "{}", json.dumps({"project_id": "p", "client_email": "e", "private_key": "k"})]
)
def test_credentials_of_another_kind_are_refused_in_one_line(credentials: str) -> None:
    with pytest.raises(ValueError, match="service account") as refusal:
        Fcm(url="https://localhost", credentials=credentials, clock=Clock())
    assert "\n" not in str(refusal.value)
