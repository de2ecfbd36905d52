"""One question to the before-send hook: signed, bounded, and a failure is no verdict."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from tests.support.servers.hook_endpoint import Endpoint
from tidings.clock import Clock
from tidings.messaging.integration.before_send import BeforeSend, Question, Verdict, reason_in, secret_of
from tidings.protocol.client_frames import check_content
from tidings.stores.outbound import Outbound

QUESTION = Question(kind="message", message_id="m1", sender_id="alice", text="hi", data={"n": 1})


def hook_at(endpoint: Endpoint, counts: Counter[str], *, allows_private: bool = True) -> BeforeSend:
    return BeforeSend(
        url=endpoint.url,
        secret=secret_of("of the store"),
        timeout_ms=10_000,
        outbound=Outbound(allows_private=allows_private),
        check=check_content,
        clock=Clock(),
        count=lambda verdict: counts.update([verdict]),
    )


async def test_a_question_is_signed_and_says_what_the_author_wrote(endpoint: Endpoint) -> None:
    counts: Counter[str] = Counter()
    endpoint.answer = json.dumps({"verdict": "rewrite", "text": "ho", "extra": 1})
    hook = hook_at(endpoint, counts)
    assert await hook.ask("c1", QUESTION) == Verdict("rewrite", "ho")
    (post,) = endpoint.posts
    assert post.is_signed_with(secret_of("of the store")) and not post.is_signed_with(secret_of("of another"))
    assert post.body["message"] == {
        "kind": "message",
        "message_id": "m1",
        "sender_id": "alice",
        "text": "hi",
        "data": {"n": 1},
    }
    assert counts == {"rewrite": 1}
    await hook.close()


async def test_a_private_address_is_not_asked(endpoint: Endpoint) -> None:
    counts: Counter[str] = Counter()
    hook = hook_at(endpoint, counts, allows_private=False)
    assert await hook.ask("c1", QUESTION) is None
    assert endpoint.posts == [] and counts == {"failed": 1}
    await hook.close()


async def test_an_endless_answer_is_cut_off(endpoint: Endpoint) -> None:
    counts: Counter[str] = Counter()
    endpoint.answer = json.dumps({"verdict": "allow", "reason": "x" * 1_000_000})
    hook = hook_at(endpoint, counts)
    async with asyncio.timeout(60):
        assert await hook.ask("c1", QUESTION) is None
    await hook.close()


def test_a_reason_is_one_short_line() -> None:
    assert reason_in(Verdict("refuse", reason=" no\x00\nlinks ")) == "no  links"
    assert len(reason_in(Verdict("refuse", reason="x" * 10_000))) == 500
    assert reason_in(Verdict("refuse")) == "this message is not allowed here"
