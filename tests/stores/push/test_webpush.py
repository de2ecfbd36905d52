"""Web Push: the RFC's own example, and a push service that checks VAPID and hands on to a browser that can read it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.clocks import AheadClock
from tests.support.servers import push_services as standins
from tests.support.servers.push_services import Browser, Certificate, Refusal, WebPushStandin, served
from tidings.stores.push.http import open_client
from tidings.stores.push.ports import Notice, Outcome, Verdict
from tidings.stores.push.webpush import KEY_WAIT_S, PASS_S, WebPush, encrypt, topic_of
from tidings.stores.tables.values import Device

PEM = standins.pem_of(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def clock() -> AheadClock:
    return AheadClock()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return standins.make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def carrier(certificate: Certificate) -> AsyncIterator[WebPushStandin]:
    standin = WebPushStandin()
    async with served(standin, certificate) as standin.url:
        yield standin


@pytest.fixture
async def webpush(carrier: WebPushStandin, certificate: Certificate, clock: AheadClock) -> AsyncIterator[WebPush]:
    made = make(certificate, clock, hosts=(carrier.url.removeprefix("https://"),))
    yield made
    await made.close()


def make(certificate: Certificate, clock: AheadClock, *, hosts: tuple[str, ...], key: str = PEM) -> WebPush:
    client = open_client(tls=certificate.trust)
    return WebPush(key=key, contact="mailto:ops@chat.example", hosts=hosts, clock=clock, client=client)


def notice(endpoint: str, browser: Browser, **fields: Any) -> Notice:
    device = Device(
        user_id="bob", device_id="tab", provider="webpush", token=endpoint, p256dh=browser.p256dh, auth=browser.auth
    )
    values: dict[str, Any] = {"collapse_id": "c1", "badge": 3, "title": "Alice", "body": "New message"}
    return Notice(device=device, conversation_id="c1", seq_no=7, **(values | fields))


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private_key(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decoded(text), "big"), ec.SECP256R1())


def test_the_example_of_rfc_8291_comes_out_as_printed_there() -> None:
    plain = b"When I grow up, I want to be a watermelon"
    content = encrypt(
        plain,
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
        decoded("DGv6ra1nlYgDCS1FRnbzlw"),
        private_key("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
    )
    assert content == decoded(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3"
        "jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    browser = Browser(private_key("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"), decoded("BTBZMqHH6r4Tts7J_aSIgg"))
    assert browser.read(content) == plain


async def test_a_notice_is_read_by_its_browser_alone(webpush: WebPush, carrier: WebPushStandin) -> None:
    endpoint, browser = carrier.subscribe("one")
    assert await webpush.send(notice(endpoint, browser)) == Outcome(Verdict.SENT)
    [told] = carrier.told
    assert told.http_version == "2"
    assert told.body == {
        "title": "Alice",
        "body": "New message",
        "badge": 3,
        "tag": "c1",
        "conversation_id": "c1",
        "seq": 7,
    }
    assert told.collapse_id == topic_of("c1")


async def test_the_largest_notice_fits_into_one_record(webpush: WebPush, carrier: WebPushStandin) -> None:
    endpoint, browser = carrier.subscribe("one")
    large = notice(endpoint, browser, title="\U0001f600" * 200, body="\U0001f600" * 330, collapse_id="c" * 128)
    assert (await webpush.send(large)).verdict is Verdict.SENT


async def test_a_silent_notice_is_not_sent_for_a_browser_would_show_it(
    webpush: WebPush, carrier: WebPushStandin
) -> None:
    endpoint, browser = carrier.subscribe("one")
    assert (await webpush.send(notice(endpoint, browser, is_silent=True))).verdict is Verdict.SKIPPED
    assert carrier.attempts == 0


async def test_a_vapid_token_serves_its_push_service_for_hours(
    webpush: WebPush, carrier: WebPushStandin, clock: AheadClock
) -> None:
    endpoint, browser = carrier.subscribe("one")
    for clock.ahead_s in (0, PASS_S - 60, PASS_S + 60):
        await webpush.send(notice(endpoint, browser))
    assert len(carrier.told) == 3 and len(carrier.passes) == 2


@pytest.mark.parametrize("refusal", [standins.WEBPUSH_GONE, standins.WEBPUSH_EXPIRED, standins.WEBPUSH_NOT_FOUND])
async def test_a_dead_subscription_is_gone(webpush: WebPush, carrier: WebPushStandin, refusal: Refusal) -> None:
    endpoint, browser = carrier.subscribe("one")
    carrier.refusals["one"].append(refusal)
    assert (await webpush.send(notice(endpoint, browser))).verdict is Verdict.GONE


async def test_too_many_are_put_off_as_asked(webpush: WebPush, carrier: WebPushStandin) -> None:
    endpoint, browser = carrier.subscribe("one")
    carrier.refusals["one"].append(standins.WEBPUSH_TOO_MANY)
    assert await webpush.send(notice(endpoint, browser)) == Outcome(Verdict.LATER, "429", 20.0)


@pytest.mark.parametrize("refusal", [standins.WEBPUSH_OTHER_KEY, standins.WEBPUSH_MISMATCH])
async def test_a_key_that_is_refused_puts_this_subscription_off(
    webpush: WebPush, carrier: WebPushStandin, refusal: Refusal
) -> None:
    endpoint, browser = carrier.subscribe("one")
    carrier.refusals["one"].append(refusal)
    assert await webpush.send(notice(endpoint, browser)) == Outcome(Verdict.LATER, str(refusal.status), KEY_WAIT_S)
    assert await webpush.send(notice(endpoint, browser)) == Outcome(Verdict.SENT)


async def test_an_address_that_is_not_on_the_list_is_never_posted_to(
    certificate: Certificate, carrier: WebPushStandin, clock: AheadClock
) -> None:
    endpoint, browser = carrier.subscribe("one")
    webpush = make(certificate, clock, hosts=("*.push.services.mozilla.com",))
    assert await webpush.send(notice(endpoint, browser)) == Outcome(Verdict.REFUSED, "host")
    assert carrier.attempts == 0
    await webpush.close()


async def test_keys_that_are_none_are_gone(webpush: WebPush, carrier: WebPushStandin) -> None:
    endpoint, browser = carrier.subscribe("one")
    browser.p256dh = standins.encoded(b"\x04" + bytes(64))  # not a point of the curve
    assert (await webpush.send(notice(endpoint, browser))).verdict is Verdict.GONE
    assert carrier.attempts == 0


def test_the_public_key_is_the_one_that_browsers_ask_for(
    certificate: Certificate, clock: AheadClock, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    made = make(certificate, clock, hosts=(), key=standins.pem_of(key))
    assert made.public_key == standins.encoded(standins.point_of(key)) and len(made.public_key) == 87
