"""Webhooks, for a backend: the values of their routes, and the check of a request that came to an endpoint."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec

from tidings_client.bounds import WEBHOOK_AGE_S_MAX
from tidings_client.clock import Clock
from tidings_client.values import Message


class Webhook(msgspec.Struct, frozen=True):
    """A webhook. Empty lists mean everything. The secret is there in the answer that creates it alone."""

    webhook_id: str
    url: str
    created_at: int
    kinds: list[str] = []
    conversation_ids: list[str] = []
    secret: str | None = None


class Webhooks(msgspec.Struct, frozen=True):
    webhooks: list[Webhook]


class Answered(msgspec.Struct, frozen=True):
    """An answer of an endpoint. Status 0: there was none."""

    at: int
    status: int
    text: str


class PausedAt(msgspec.Struct, frozen=True):
    conversation_id: str
    from_seq: int
    answer: str


class WebhookState(msgspec.Struct, frozen=True):
    """How far an endpoint is behind."""

    behind_by: int
    oldest_at: int | None
    last_answer: Answered | None
    paused: list[PausedAt] = []
    complete: bool = True


class NewWebhook(msgspec.Struct, frozen=True, omit_defaults=True, rename={"begin": "from"}):
    url: str
    kinds: list[str] | None = None
    conversation_ids: list[str] | None = None
    begin: str = "now"


class Replay(msgspec.Struct, frozen=True):
    conversation_id: str
    from_seq: int


class WebhookRequest(msgspec.Struct, frozen=True):
    """The body of a request to an endpoint: entries of one conversation, in order."""

    webhook_id: str
    conversation_id: str
    entries: list[Message]
    head: int


class MessageToJudge(msgspec.Struct, frozen=True):
    """A message as its author wrote it, before it has a number."""

    kind: str
    message_id: str
    sender_id: str
    text: str | None
    data: dict[str, Any] | None = None
    silent: bool = False
    reply_to: int | None = None
    target_seq: int | None = None
    mentions: list[str] = []
    mention: str | None = None
    files: list[str] = []
    state: str | None = None


class BeforeSendRequest(msgspec.Struct, frozen=True):
    """The body of a request to the before-send hook."""

    conversation_id: str
    message: MessageToJudge


def verify_webhook(
    secret: str, signature: str, body: bytes, *, age_s_max: float = WEBHOOK_AGE_S_MAX, clock: Clock | None = None
) -> WebhookRequest:
    """Check the header `Tidings-Signature` of a request, and decode the body. Raises ValueError."""
    _check(secret, signature, body, age_s_max, clock)
    return msgspec.json.decode(body, type=WebhookRequest)


def verify_before_send(
    secret: str, signature: str, body: bytes, *, age_s_max: float = WEBHOOK_AGE_S_MAX, clock: Clock | None = None
) -> BeforeSendRequest:
    """The same for a request to the before-send hook. `tidings webhook secret` prints the secret."""
    _check(secret, signature, body, age_s_max, clock)
    return msgspec.json.decode(body, type=BeforeSendRequest)


def _check(secret: str, signature: str, body: bytes, age_s_max: float, clock: Clock | None) -> None:
    parts = dict(part.partition("=")[::2] for part in signature.split(","))
    at = parts.get("t", "")
    expected = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, parts.get("v1", "")):
        raise ValueError("the signature is not of this secret and body")
    if not at.isdigit() or abs((clock or Clock()).now_ms() - int(at)) > age_s_max * 1000:
        raise ValueError("the signature is too old")
