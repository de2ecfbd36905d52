"""Before-send hook: asks the endpoint of the team about one message.

The endpoint gets the message as its author wrote it, signed like a webhook, and has `timeout_ms` for a verdict. An
answer that is late, not 2xx, not JSON or not a verdict is a failure. The settings say what a failure means: the
message is sent all the same, or refused for now.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from tidings.clock import Clock
from tidings.errors import Problem
from tidings.model import EntryKind, Mention
from tidings.stores.outbound import Answer, Outbound, signature

log = logging.getLogger("tidings.hooks")
ANSWER_BYTES_MAX = 64 * 1024  # of a verdict: a rewritten text and its data fit, escaped as JSON
REASON_CHARS_MAX = 500  # of a refusal, as the sender sees it
Check = Callable[[str, dict[str, Any] | None], None]
Count = Callable[[str], None]


class Verdict(msgspec.Struct, frozen=True):
    """The answer of the endpoint."""

    verdict: Literal["allow", "refuse", "rewrite", "sender_only"]
    text: str | None = None
    data: dict[str, Any] | None = None
    reason: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as its author wrote it. It has no number yet."""

    kind: EntryKind
    message_id: str
    sender_id: str
    text: str | None
    data: dict[str, Any] | None = None
    silent: bool = False
    reply_to: int | None = None
    target_seq: int | None = None
    mentions: tuple[str, ...] = ()
    mention: Mention | None = None
    files: tuple[str, ...] = ()
    state: str | None = None


class _Body(msgspec.Struct, frozen=True):
    conversation_id: str
    message: Question


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Verdict).decode


def secret_of(store_secret: str) -> str:
    """The secret that signs the requests: one of the deployment, made from the secret of its tables."""
    return "whs_" + hmac.new(store_secret.encode(), b"before-send hook", hashlib.sha256).hexdigest()[:48]


class BeforeSend:
    """`check` raises a Problem for a text or data that no author may send. `count` gets each verdict, or "failed"."""

    def __init__(
        self, *, url: str, secret: str, timeout_ms: int, outbound: Outbound, check: Check, clock: Clock, count: Count
    ) -> None:
        self._url = url
        self._secret = secret
        self._timeout_s = timeout_ms / 1000
        self._outbound = outbound
        self._check = check
        self._clock = clock
        self._count = count
        self._is_failing = False

    async def ask(self, conversation_id: str, question: Question) -> Verdict | None:
        """The verdict on a message. None: there is none."""
        body = _encode(_Body(conversation_id, question))
        headers = {
            "Tidings-Signature": signature(self._secret, self._clock.now_ms(), body),
            "Idempotency-Key": f"before-send/{conversation_id}/{question.sender_id}/{question.message_id}",
        }
        answer = await self._outbound.post(
            self._url, headers, body, within_s=self._timeout_s, answer_bytes_max=ANSWER_BYTES_MAX
        )
        try:
            verdict = self._verdict(answer)
        except (ValueError, Problem) as error:
            self._failed(str(error))
            return None
        self._is_failing = False
        self._count(verdict.verdict)
        return verdict

    async def close(self) -> None:
        await self._outbound.close()

    def _verdict(self, answer: Answer) -> Verdict:
        """Raises ValueError, and a Problem for a text that cannot be sent."""
        if not answer.is_taken:
            raise ValueError(answer.text)
        verdict = _decode(answer.body)
        if verdict.verdict == "rewrite":
            if verdict.text is None and verdict.data is None:
                raise ValueError("a rewrite without `text` and `data`")
            self._check("." if verdict.text is None else verdict.text, verdict.data)
        return verdict

    def _failed(self, cause: str) -> None:
        self._count("failed")
        level = logging.DEBUG if self._is_failing else logging.WARNING
        log.log(level, "before-send hook failed", extra={"cause": cause})
        self._is_failing = True


def reason_in(verdict: Verdict) -> str:
    """The words with which a sender is refused."""
    said = "".join(one if one.isprintable() else " " for one in verdict.reason or "").strip()
    return said[:REASON_CHARS_MAX] or "this message is not allowed here"
