"""A proxy in front of DynamoDB Local that makes it as unpleasant as the real one, and as large.

Faults, each when somebody asks for it: throttled before anything was done; a batch that leaves a part unprocessed; a
transaction in conflict with another; applied, but the reply lost. And transactions of up to 100 items, as DynamoDB
takes them: the jar of 2020 takes 10, so larger ones are carried out here while everybody else waits, conditions first.
It lives in a thread with an event loop of its own, so that tests of any kind and nodes as processes may use it.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tidings.clock import Clock, Dice
from tidings.stores.aws.http import Answer, HttpFailed, Origin, Pool
from tidings.stores.tables.dynamodb.schema import definitions

ITEMS_OF_JAR = 10  # in a transaction
ITEMS_MAX = 100
TRIES = 20  # to write the rest of a transaction
WRITES = frozenset(("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"))
READS = frozenset(("GetItem", "BatchGetItem", "Query"))
SINGLE_WRITES = frozenset(("PutItem", "UpdateItem", "DeleteItem"))
Choose = Callable[[str, dict[str, Any]], str | None]


FAULTS: dict[str, frozenset[str]] = {
    "throttled": WRITES | READS,
    "throttling": WRITES | READS,
    "unprocessed": frozenset(("BatchGetItem", "BatchWriteItem")),
    "conflict": SINGLE_WRITES | {"TransactWriteItems"},
    "lost": WRITES | READS,  # carried out, but the connection closes before the reply
    "error": WRITES | READS,  # carried out, and answered with 500
}


class Faults:
    """Faults: the `chances` of each kind per request, from a seed; `injected` counts them."""

    def __init__(self, seed: int, **chances: float) -> None:
        assert chances.keys() <= FAULTS.keys()
        self._dice = Dice(seed)
        self._chances = chances
        self.injected: Counter[str] = Counter()

    def __call__(self, action: str, payload: dict[str, Any]) -> str | None:
        for kind, chance in self._chances.items():
            if action in FAULTS[kind] and self._dice.random() < chance:
                self.injected[kind] += 1
                return kind
        return None


class Asked(NamedTuple):
    action: str
    head: bytes
    body: bytes

    def payload(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.body)
        return loaded

    def with_payload(self, payload: dict[str, Any], action: str = "") -> Asked:
        return Asked(action or self.action, self.head, json.dumps(payload).encode())


class Shim:
    """`choose(action, payload)` names the fault of a request, or None; a test sets it and takes it away."""

    def __init__(self, target_port: int) -> None:
        self.choose: Choose | None = None
        self.asked: Counter[str] = Counter()
        self.port = 0
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._keys = {each.name: [part["AttributeName"] for part in each.table["KeySchema"]] for each in definitions()}
        self._tokens: dict[str, tuple[str, Answer]] = {}
        started = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(started,), name="dynamodb-shim", daemon=True)
        self._thread.start()
        assert started.wait(10)

    def url(self, prefix: str, **parameters: str) -> str:
        """With few connections: DynamoDB Local does some hundred requests a second, however many ask."""
        place = {"prefix": prefix, "endpoint": f"http://127.0.0.1:{self.port}", "links": "8"}
        query = urlencode(place | parameters)
        return f"dynamodb://eu-west-1?{query}"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    # --- the server -------------------------------------------------------------------------------

    def _live(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._pool = Pool(Origin("127.0.0.1", self._target_port, False), Clock(), 64)
        self._gate = Gate()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        self._pool.close()
        server.close()
        serving = asyncio.all_tasks(self._loop)
        for task in serving:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*serving, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                answer = await self._answer(await _read(reader))
                if answer is None:
                    break
                head = f"HTTP/1.1 {answer.status} -\r\ncontent-length: {len(answer.body)}\r\n\r\n"
                writer.write(head.encode() + answer.body)
                await writer.drain()
        writer.close()

    async def _answer(self, asked: Asked) -> Answer | None:
        """None: the connection is closed instead."""
        self.asked[asked.action] += 1
        fault = self.choose(asked.action, asked.payload()) if self.choose is not None else None
        match fault:
            case "throttled":
                return _refusal("ProvisionedThroughputExceededException")
            case "throttling":
                return _refusal("ThrottlingException")
            case "conflict" if asked.action == "TransactWriteItems":
                return _canceled([{"Code": "TransactionConflict"}] * len(asked.payload()["TransactItems"]))
            case "conflict":
                return _refusal("TransactionConflictException")
            case "unprocessed":
                return await self._partly(asked)
            case "lost":
                await self._carry(asked)
                return None
            case "error":
                await self._carry(asked)
                return Answer(500, b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":""}')
        return await self._carry(asked)

    async def _carry(self, asked: Asked) -> Answer:
        if asked.action == "TransactWriteItems" and len(asked.payload()["TransactItems"]) > ITEMS_OF_JAR:
            async with self._gate.alone():
                return await self._wide(asked)
        async with self._gate.beside_others():
            return await self._forward(asked)

    async def _forward(self, asked: Asked) -> Answer:
        head = re.sub(rb"content-length:\d+", b"content-length:%d" % len(asked.body), asked.head)
        try:
            async with self._pool.place:
                return await self._pool.exchange(head + asked.body, 30.0)
        except HttpFailed as failed:
            return Answer(500, json.dumps({"__type": "#InternalServerError", "message": str(failed)}).encode())

    # --- a part of a batch ------------------------------------------------------------------------

    async def _partly(self, asked: Asked) -> Answer:
        """The first half is carried out, the rest is given back."""
        payload = asked.payload()
        ((table, wanted),) = payload["RequestItems"].items()
        is_read = asked.action == "BatchGetItem"
        things = wanted["Keys"] if is_read else wanted
        now, later = things[: len(things) // 2], things[len(things) // 2 :]
        left = {table: {**wanted, "Keys": later} if is_read else later}
        if not now:
            reply = {"Responses": {}, "UnprocessedKeys": left} if is_read else {"UnprocessedItems": left}
            return Answer(200, json.dumps(reply).encode())
        part = {table: {**wanted, "Keys": now} if is_read else now}
        answer = await self._carry(asked.with_payload({**payload, "RequestItems": part}))
        if answer.status != 200:
            return answer
        name = "UnprocessedKeys" if is_read else "UnprocessedItems"
        return Answer(200, json.dumps({**json.loads(answer.body), name: left}).encode())

    # --- large transactions -----------------------------------------------------------------------

    async def _wide(self, asked: Asked) -> Answer:
        payload = asked.payload()
        items, token = payload["TransactItems"], payload["ClientRequestToken"]
        if len(items) > ITEMS_MAX:
            return _refusal("ValidationException")
        content = json.dumps(items)
        if token in self._tokens:
            first, answer = self._tokens[token]
            return answer if first == content else _refusal("IdempotentParameterMismatchException")
        reasons = await self._check(asked, items)
        if isinstance(reasons, Answer):
            return reasons
        if any(reason["Code"] != "None" for reason in reasons):
            return _canceled(reasons)
        units: Counter[str] = Counter()
        for chunk in _chunks(items):
            answer = await self._apply_surely(asked, chunk)
            for part in json.loads(answer.body).get("ConsumedCapacity", ()):
                units[part["TableName"]] += part["CapacityUnits"]
        consumed = [{"TableName": name, "CapacityUnits": sum_} for name, sum_ in units.items()]
        answer = Answer(200, json.dumps({"ConsumedCapacity": consumed}).encode())
        self._tokens[token] = (content, answer)
        return answer

    async def _apply_surely(self, asked: Asked, items: list[dict[str, Any]]) -> Answer:
        """All or nothing: once a part is written, the rest must be."""
        for _ in range(TRIES):
            answer = await self._apply(asked, items)
            if answer.status == 200:
                return answer
            await asyncio.sleep(0.1)
        raise AssertionError(f"a transaction was written in part: {answer.body!r}")

    async def _check(self, asked: Asked, items: list[dict[str, Any]]) -> list[dict[str, Any]] | Answer:
        """The verdict on every item, without writing; or what the server said instead."""
        reasons: list[dict[str, Any]] = [{"Code": "None"} for _ in items]
        positions = [at for at, item in enumerate(items) if "ConditionExpression" in next(iter(item.values()))]
        for chunk in _chunks(positions):
            answer = await self._apply(asked, [{"ConditionCheck": self._as_check(items[at])} for at in chunk])
            if answer.status != 200:
                said = json.loads(answer.body)
                if "CancellationReasons" not in said:
                    return answer
                for at, reason in zip(chunk, said["CancellationReasons"], strict=True):
                    reasons[at] = reason
        return reasons

    async def _apply(self, asked: Asked, items: list[dict[str, Any]]) -> Answer:
        return await self._forward(asked.with_payload({"TransactItems": items, "ReturnConsumedCapacity": "TOTAL"}))

    def _as_check(self, item: dict[str, Any]) -> dict[str, Any]:
        ((_, body),) = item.items()
        condition = body["ConditionExpression"]
        names = set(re.findall(r"#\w+", condition))
        held = set(re.findall(r":\w+", condition))
        made = {
            "TableName": body["TableName"],
            "Key": body.get("Key") or self._key_of(body),
            "ConditionExpression": condition,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            "ExpressionAttributeNames": _only(body.get("ExpressionAttributeNames", {}), names),
            "ExpressionAttributeValues": _only(body.get("ExpressionAttributeValues", {}), held),
        }
        return {name: part for name, part in made.items() if part}

    def _key_of(self, body: dict[str, Any]) -> dict[str, Any]:
        table = max((name for name in self._keys if body["TableName"].endswith(name)), key=len)
        return {name: body["Item"][name] for name in self._keys[table]}


class Gate:
    """Many beside each other, or one alone."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._inside = 0
        self._is_closed = False

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_closed)
            self._inside += 1
        try:
            yield
        finally:
            async with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_closed)
            self._is_closed = True
            await self._changed.wait_for(lambda: self._inside == 0)
        try:
            yield
        finally:
            async with self._changed:
                self._is_closed = False
                self._changed.notify_all()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(re.search(rb"content-length:\s*(\d+)", head).group(1))  # type: ignore[union-attr]
    action = re.search(rb"x-amz-target:\s*\w+\.(\w+)", head).group(1).decode()  # type: ignore[union-attr]
    return Asked(action, head, await reader.readexactly(size))


def _refusal(code: str) -> Answer:
    return Answer(400, json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": code}).encode())


def _canceled(reasons: list[dict[str, Any]]) -> Answer:
    said = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "CancellationReasons": reasons}
    return Answer(400, json.dumps(said).encode())


def _chunks(things: list[Any]) -> list[list[Any]]:
    return [things[at : at + ITEMS_OF_JAR] for at in range(0, len(things), ITEMS_OF_JAR)]


def _only(parts: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if name in names}
