"""The client of DynamoDB: signs a call, posts it, retries while that may help, and answers with our own errors.

Invariant: a caller gets one of four answers. The call was done (the reply). It was refused and nothing was written
(`ConditionFailed`, `Canceled`). The store asks for less and nothing was written (`Throttled`). Nobody knows
(`Unavailable` with is_ambiguous). Retries pause with full jitter and end with the deadline of the whole operation.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from aiodynamo.credentials import Key

from tidings.clock import Clock
from tidings.errors import StoreError, Throttled, Unavailable
from tidings.stores.aws.credentials import KeyChain, aws_domain, open_keys
from tidings.stores.aws.http import Answer, HttpFailed, Origin, Pool, origin_of
from tidings.stores.aws.signatures import Signer
from tidings.stores.tables.dynamodb.client import bounds

Item = dict[str, Any]  # attribute -> {type: value}, as DynamoDB writes it
CountUnits = Callable[[str, float], object]  # "read" or "write", capacity units

READS = frozenset(("GetItem", "BatchGetItem", "Query", "Scan", "DescribeTable", "DescribeTimeToLive"))
_PARAMETERS = frozenset(("prefix", "endpoint", "dedupe", "links"))
_LESS = frozenset(
    ("ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException")
)
_BUSY = frozenset(("TransactionConflictException", "ReplicatedWriteConflictException"))
_LESS_REASONS = frozenset(("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "None"))
_STALE_KEYS = frozenset(("ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException"))

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Place(NamedTuple):
    """The parts of a URL: dynamodb://region?prefix=tidings_&endpoint=http://host:port&links=64"""

    region: str
    prefix: str
    origin: Origin
    links: int  # connections of a node


def place_of(url: str) -> Place:
    """A bad URL is a ValueError in one line."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    region, prefix = parts.hostname or "", query.get("prefix", "tidings_")
    if parts.scheme != "dynamodb" or not re.fullmatch(r"[a-z0-9-]+", region) or parts.path not in ("", "/"):
        raise ValueError("tables: dynamodb://region?prefix=tidings_&endpoint=http://host:port")
    if strange := sorted(query.keys() - _PARAMETERS):
        raise ValueError(f"tables: dynamodb:// takes {', '.join(sorted(_PARAMETERS))}, not {strange[0]}")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{0,100}", prefix):
        raise ValueError("tables: prefix may have letters, digits and _ . - only")
    if query.get("dedupe", "transaction") != "transaction":
        raise ValueError("tables: every message is stored by a transaction; take dedupe out of the URL")
    links = query.get("links", str(bounds.LINKS))
    if not re.fullmatch(r"[0-9]{1,3}", links) or int(links) < 2:
        raise ValueError("tables: links is a number of connections, from 2 to 999")
    endpoint = query.get("endpoint") or f"https://dynamodb.{region}.{aws_domain(region)}"
    return Place(region, prefix, origin_of(endpoint), int(links))


class ConditionFailed(Exception):
    """Nothing was written. `item`: what is there, where DynamoDB says so.

    `is_repeated`: an earlier try of the same call was not answered, so what is there may be its work.
    """

    def __init__(self, item: Item | None, *, is_repeated: bool) -> None:
        super().__init__("a condition does not hold")
        self.item = item
        self.is_repeated = is_repeated


class Reason(NamedTuple):
    """The reason why one item stopped a transaction."""

    is_failed: bool
    item: Item | None


class Canceled(Exception):
    """A transaction wrote nothing. One reason per item, in order."""

    def __init__(self, reasons: Sequence[Reason]) -> None:
        super().__init__("a condition of the transaction does not hold")
        self.reasons = reasons


class Effort:
    """The time for one operation with all its calls. It starts with the first request, or when no AWS key was found."""

    def __init__(self, clock: Clock, throttled_s: float | None = None) -> None:
        self._clock = clock
        self._throttled_s = throttled_s  # a shorter time for an operation that is only throttled
        self._until_s = 0.0
        self._pause_s = bounds.PAUSE_S
        self.is_unclear = False  # a write was sent and not answered

    def begin(self, at_s: float) -> None:
        """Start the time of the operation, unless it runs already."""
        self._until_s = self._until_s or at_s + bounds.DEADLINE_S

    def attempt_s(self) -> float:
        """Return the seconds that the next request may take. The first request starts the time."""
        now_s = self._clock.monotonic_s()
        self.begin(now_s)
        return max(0.001, min(bounds.ATTEMPT_S, self._until_s - now_s))

    async def pause(self, error: StoreError) -> None:
        """Pause before the next try. Raises the error past the deadline."""
        pause_s = self._pause_s * self._clock.random_fraction()
        self._pause_s = min(2 * self._pause_s, bounds.PAUSE_S_MAX)
        until_s = self._until_s
        if self._throttled_s is not None and isinstance(error, Throttled) and not self.is_unclear:
            until_s += self._throttled_s - bounds.DEADLINE_S
        if self._clock.monotonic_s() + pause_s >= until_s:
            raise Unavailable(str(error), is_ambiguous=True) if self.is_unclear else error
        await asyncio.sleep(pause_s)


class SignedPosts:
    """Signed POSTs to `/`, as DynamoDB takes them."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._authority = place.origin.authority
        self._signer = Signer("dynamodb", place.region, clock)

    def request(self, key: Key, action: str, body: bytes) -> bytes:
        at = self._signer.now()
        headers = {
            "content-type": "application/x-amz-json-1.0",
            "host": self._authority,
            "x-amz-date": at,
            **({"x-amz-security-token": key.token} if key.token else {}),
            "x-amz-target": f"DynamoDB_20120810.{action}",
        }
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        names = ";".join(headers)
        signature = self._signer.signature(key, at, f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}")
        credential = f"Credential={key.id}/{self._signer.scope(at)}, SignedHeaders={names}, Signature={signature}"
        head = f"POST / HTTP/1.1\n{lines}authorization:AWS4-HMAC-SHA256 {credential}\ncontent-length:{len(body)}\n\n"
        return head.replace("\n", "\r\n").encode() + body


class Wire:
    """Calls to one DynamoDB."""

    def __init__(self, place: Place, pool: Pool, keys: KeyChain, clock: Clock, count_units: CountUnits) -> None:
        self._pool = pool
        self._keys = keys
        self._sign = SignedPosts(place, clock).request
        self._count_units = count_units
        self.clock = clock
        self._is_closed = False

    def effort(self, throttled_s: float | None = None) -> Effort:
        return Effort(self.clock, throttled_s)

    async def call(self, action: str, payload: dict[str, Any], effort: Effort | None = None) -> dict[str, Any]:
        """The reply. Raises ConditionFailed, Canceled, Throttled, Unavailable."""
        effort, body = effort or self.effort(), _encode(payload)
        try:
            # The place is kept while it pauses: when DynamoDB asks for less, the whole node does less.
            async with self._pool.place:
                while True:
                    answer = await self._attempt(action, body, effort)
                    if isinstance(answer, StoreError):
                        await effort.pause(answer)
                    elif answer.status == 200:
                        reply = _decode(answer.body)
                        self._count(action, reply)
                        return reply
                    else:
                        await effort.pause(self._passing(action, answer, effort))
        except StoreError as error:
            error.locate("tables", f"{action} {payload.get('TableName', '')}".rstrip())
            raise

    async def _attempt(self, action: str, body: bytes, effort: Effort) -> Answer | StoreError:
        if self._is_closed:
            raise Unavailable("the tables are closed", is_ambiguous=effort.is_unclear)
        asked_s = self.clock.monotonic_s()
        try:
            key = await self._keys.key()
            return await self._pool.exchange(self._sign(key, action, body), effort.attempt_s())
        except Unavailable as error:
            effort.begin(asked_s)
            return error
        except HttpFailed as failed:
            effort.is_unclear |= failed.is_sent and action not in READS
            return Unavailable(f"tables: {failed}")

    def close(self) -> None:
        self._is_closed = True
        self._pool.close()

    def _passing(self, action: str, answer: Answer, effort: Effort) -> StoreError:
        """Return the error if another try may help; raise it otherwise."""
        code, said = _error_of(answer)
        if code == "ConditionalCheckFailedException":
            raise ConditionFailed(said.get("Item"), is_repeated=effort.is_unclear)
        if code == "TransactionCanceledException":
            return _canceled(said)
        if code in _LESS or code in _BUSY:
            return Throttled(f"DynamoDB: {code}")
        if code == "TransactionInProgressException" or answer.status >= 500:
            effort.is_unclear |= action not in READS
            return Unavailable(f"DynamoDB: {code}")
        if code in _STALE_KEYS and self._keys.invalidate():
            return Unavailable(f"DynamoDB: {code}")
        hint = "; `tidings tables create` makes the tables" if code == "ResourceNotFoundException" else ""
        message = str(said.get("message") or said.get("Message") or "")[:300]
        raise Unavailable(f"DynamoDB refuses {action}: {code} {message}{hint}", is_ambiguous=effort.is_unclear)

    def _count(self, action: str, reply: dict[str, Any]) -> None:
        consumed = reply.get("ConsumedCapacity")
        if consumed:
            parts = consumed if isinstance(consumed, list) else (consumed,)
            # A transaction that is asked for again, and was done, says what reading its outcome took.
            is_read = action in READS or all("ReadCapacityUnits" in part for part in parts)
            self._count_units("read" if is_read else "write", sum(part["CapacityUnits"] for part in parts))


def _error_of(answer: Answer) -> tuple[str, dict[str, Any]]:
    try:
        said = _decode(answer.body)
    except msgspec.DecodeError:
        return f"HTTP {answer.status}", {}
    return str(said.get("__type", f"HTTP {answer.status}")).rpartition("#")[2], said


def _canceled(said: dict[str, Any]) -> StoreError:
    """A condition that failed is a verdict; a conflict or a throttled item is not."""
    codes = [reason.get("Code", "None") for reason in said.get("CancellationReasons", ())]
    if "ConditionalCheckFailed" in codes:
        reasons = zip(codes, said["CancellationReasons"], strict=True)
        raise Canceled([Reason(code == "ConditionalCheckFailed", reason.get("Item")) for code, reason in reasons])
    if _LESS_REASONS.issuperset(codes):
        return Throttled(f"DynamoDB: {next((code for code in codes if code != 'None'), 'canceled')}")
    raise Unavailable(f"DynamoDB cancels a transaction: {', '.join(sorted(set(codes)))}")


def open_wire(place: Place, clock: Clock, count_units: CountUnits) -> Wire:
    return Wire(place, Pool(place.origin, clock, place.links), open_keys(place.region, clock), clock, count_units)
