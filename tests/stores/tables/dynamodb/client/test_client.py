"""The protocol: signatures, retries within the deadline, and verdicts, from a server that says what a test wants."""

from __future__ import annotations

import datetime
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiodynamo import sign
from aiodynamo.credentials import Key, StaticCredentials
from aiodynamo.http.types import HttpImplementation
from yarl import URL

from tests.support.servers.http_server import Heard, serve
from tidings.clock import Clock
from tidings.errors import Throttled, Unavailable
from tidings.stores.aws.credentials import KeyChain
from tidings.stores.aws.http import Pool
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.client import Canceled, ConditionFailed, SignedPosts, Wire, place_of
from tidings_proof.world.ports import free_port

Said = tuple[int, dict[str, Any]]


def error(code: str, **more: Any) -> Said:
    return 400, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no", **more}


class Server:
    """Answers in turn, the last one for ever."""

    def __init__(self, *answers: Said) -> None:
        self.answers = list(answers)
        self.heard: list[Heard] = []
        self.units: list[tuple[str, float]] = []

    def __call__(self, asked: Heard) -> tuple[int, str]:
        self.heard.append(asked)
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return status, json.dumps(body)

    @asynccontextmanager
    async def wire(self, credentials: type[StaticCredentials] = StaticCredentials) -> AsyncIterator[Wire]:
        async with serve(self) as url:
            wire = make_wire(url, self, credentials)
            yield wire
            wire.close()


class Hiccuping(StaticCredentials):
    """Has no answer the first times."""

    hiccups = 1

    async def get_key(self, http: HttpImplementation) -> Key | None:
        self.hiccups -= 1
        if self.hiccups >= 0:
            raise OSError("the metadata service hiccups")
        return await super().get_key(http)


class Keyless(Hiccuping):
    hiccups = 1_000_000


def make_wire(url: str, server: Server, credentials: type[StaticCredentials] = StaticCredentials) -> Wire:
    place, clock = place_of(f"dynamodb://eu-west-1?endpoint={url}"), Clock()
    keys = KeyChain(clock, [credentials(Key("id", "secret"))])
    count = lambda kind, units: server.units.append((kind, units))  # noqa: E731
    return Wire(place, Pool(place.origin, clock, place.links), keys, clock, count)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DEADLINE_S", 0.2)
    monkeypatch.setattr(bounds, "ATTEMPT_S", 0.1)


def test_the_url_says_where_and_how() -> None:
    place = place_of("dynamodb://eu-west-1")
    assert (place.region, place.prefix) == ("eu-west-1", "tidings_")
    assert place.origin.authority == "dynamodb.eu-west-1.amazonaws.com" and place.origin.is_tls
    place = place_of("dynamodb://cn-north-1?prefix=a.b-&endpoint=http://localhost:8000&links=9")
    assert (place.prefix, place.origin.authority, place.links) == ("a.b-", "localhost:8000", 9)
    assert place_of("dynamodb://us-east-1?prefix=").prefix == ""


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("dynamodb://", "region"),
        ("dynamodb://eu-west-1/x", "region"),
        ("dynamodb://eu-west-1?prefx=a", "prefx"),
        ("dynamodb://eu-west-1?prefix=a/b", "prefix"),
        ("dynamodb://eu-west-1?dedupe=never", "dedupe"),
        ("dynamodb://eu-west-1?links=1", "links"),
        ("dynamodb://eu-west-1?links=many", "links"),
        ("dynamodb://eu-west-1?endpoint=localhost:8000", "endpoint"),
    ],
)
def test_a_bad_url_is_said_in_one_line(url: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        place_of(url)


def test_the_signature_is_the_one_that_another_client_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, key = Clock(), Key("AKIDEXAMPLE", "a-secret")
    monkeypatch.setattr(clock, "now_ms", lambda: 1_440_938_160_000)
    at = sign.Instant(datetime.datetime.fromtimestamp(1_440_938_160, datetime.UTC))
    monkeypatch.setattr(sign.Instant, "now", lambda: at)
    payload = {"TableName": "t", "Key": {"a": {"S": "b"}}}
    url = URL("https://dynamodb.eu-west-1.amazonaws.com/")
    theirs = sign.signed_dynamo_request(key=key, payload=payload, action="GetItem", region="eu-west-1", endpoint=url)
    for _ in range(2):  # the second time with the day's key
        ours = SignedPosts(place_of("dynamodb://eu-west-1"), clock).request(key, "GetItem", theirs.body).decode()
        assert f"authorization:{theirs.headers['Authorization']}\r\n" in ours
        assert f"x-amz-date:{theirs.headers['X-Amz-Date']}\r\n" in ours and ours.endswith(theirs.body.decode())


def test_a_session_token_is_sent_and_signed() -> None:
    request = SignedPosts(place_of("dynamodb://eu-west-1"), Clock()).request(Key("i", "s", "tok"), "GetItem", b"{}")
    assert b"x-amz-security-token:tok\r\n" in request
    assert b"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target" in request


async def test_a_reply_is_answered_and_its_units_are_counted() -> None:
    server = Server((200, {"Item": {}, "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 0.5}}))
    async with server.wire() as wire:
        assert "Item" in await wire.call("GetItem", {"TableName": "t"})
    assert server.units == [("read", 0.5)]
    assert server.heard[0].headers["x-amz-target"] == "DynamoDB_20120810.GetItem"


async def test_units_of_a_transaction_are_written_and_of_its_repetition_read() -> None:
    def reply(kind: str) -> Said:
        return 200, {"ConsumedCapacity": [{"TableName": n, "CapacityUnits": 2, kind: 2} for n in ("a", "b")]}

    server = Server(reply("WriteCapacityUnits"), reply("ReadCapacityUnits"))
    async with server.wire() as wire:
        for _ in range(2):
            await wire.call("TransactWriteItems", {})
    assert server.units == [("write", 4), ("read", 4)]


@pytest.mark.parametrize(
    "trouble",
    [
        error("ProvisionedThroughputExceededException"),
        error("ThrottlingException"),
        error("TransactionConflictException"),
        error("TransactionInProgressException"),
        error("TransactionCanceledException", CancellationReasons=[{"Code": "None"}, {"Code": "TransactionConflict"}]),
        error("TransactionCanceledException", CancellationReasons=[{"Code": "ThrottlingError"}]),
        (500, {"__type": "#InternalServerError"}),
        (503, {}),
    ],
)
async def test_passing_trouble_is_tried_again(trouble: Said) -> None:
    server = Server(trouble, trouble, (200, {"done": True}))
    async with server.wire() as wire:
        assert await wire.call("TransactWriteItems", {}) == {"done": True}
    assert len({asked.body for asked in server.heard}) == 1 and len(server.heard) == 3


async def test_throttled_to_the_end_is_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DEADLINE_S", 2.0)
    monkeypatch.setattr(bounds, "ATTEMPT_S", 60.0)  # no attempt ends for its time alone, however slow the machine is
    server = Server(error("ThrottlingException"))
    async with server.wire() as wire:
        with pytest.raises(Throttled, match="ThrottlingException") as said:
            await wire.call("PutItem", {"TableName": "messages"})
    assert (said.value.store, said.value.op) == ("tables", "PutItem messages")
    assert len(server.heard) > 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("action", "is_ambiguous"), [("PutItem", True), ("GetItem", False)])
async def test_after_an_unclear_try_a_throttled_write_stays_unclear(action: str, is_ambiguous: bool) -> None:
    server = Server((500, {}), error("ThrottlingException"))
    async with server.wire() as wire:
        with pytest.raises((Unavailable, Throttled)) as said:
            await wire.call(action, {})
        assert getattr(said.value, "is_ambiguous", False) == is_ambiguous


@pytest.mark.usefixtures("impatient")
async def test_nobody_there_is_unavailable_and_not_ambiguous() -> None:
    wire = make_wire(f"http://127.0.0.1:{free_port()}", Server())
    with pytest.raises(Unavailable, match=r"\Atables: 127\.0\.0\.1:\d+: Connect[^\[]+\Z") as said:
        await wire.call("PutItem", {})
    assert not said.value.is_ambiguous


async def test_a_key_that_cannot_be_had_is_asked_for_again() -> None:
    server = Server((200, {"done": True}))
    async with server.wire(Hiccuping) as wire:
        assert await wire.call("PutItem", {}) == {"done": True}
    assert len(server.heard) == 1


@pytest.mark.usefixtures("impatient")
async def test_without_a_key_to_the_end_nothing_was_written() -> None:
    server = Server((200, {}))
    async with server.wire(Keyless) as wire:
        with pytest.raises(Unavailable, match="no AWS credentials: asked Keyless") as said:
            await wire.call("PutItem", {})
        assert not said.value.is_ambiguous
    assert not server.heard


async def test_a_condition_that_fails_is_told_with_what_is_there() -> None:
    server = Server(error("ConditionalCheckFailedException", Item={"a": {"S": "b"}}))
    async with server.wire() as wire:
        with pytest.raises(ConditionFailed) as failed:
            await wire.call("PutItem", {})
        assert failed.value.item == {"a": {"S": "b"}} and not failed.value.is_repeated
    server = Server((500, {}), error("ConditionalCheckFailedException"))
    async with server.wire() as wire:
        with pytest.raises(ConditionFailed) as failed:
            await wire.call("PutItem", {})
        assert failed.value.is_repeated


async def test_a_canceled_transaction_names_its_reasons_in_order() -> None:
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": {"a": {"N": "1"}}}]
    server = Server(error("TransactionCanceledException", CancellationReasons=reasons))
    async with server.wire() as wire:
        with pytest.raises(Canceled) as canceled:
            await wire.call("TransactWriteItems", {})
    assert [(r.is_failed, r.item) for r in canceled.value.reasons] == [(False, None), (True, {"a": {"N": "1"}})]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (error("ResourceNotFoundException"), "tidings tables create"),
        (error("ValidationException"), "ValidationException no"),
        (error("ExpiredTokenException"), "ExpiredTokenException"),
        (error("TransactionCanceledException", CancellationReasons=[{"Code": "ValidationError"}]), "ValidationError"),
        ((404, {}), "HTTP 404"),
    ],
)
async def test_what_another_try_would_not_help_is_said_at_once(said: Said, words: str) -> None:
    server = Server(said)
    async with server.wire() as wire:
        with pytest.raises(Unavailable, match=words):
            await wire.call("PutItem", {})
    assert len(server.heard) == 1


async def test_a_closed_wire_is_unavailable() -> None:
    async with Server((200, {})).wire() as wire:
        wire.close()
        with pytest.raises(Unavailable, match="closed"):
            await wire.call("GetItem", {})
