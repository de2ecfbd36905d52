"""A backend makes webhooks, and its endpoint checks what comes."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json

import pytest

from tests.support.servers.hook_endpoint import open_endpoint
from tidings import testing
from tidings.config.settings import Hooks, Limits, Settings
from tidings_client import verify_before_send, verify_webhook


async def test_a_backend_gets_entries_at_its_endpoint_and_checks_them() -> None:
    limits = Limits(send=testing.GENEROUS, connect=testing.GENEROUS, create=testing.GENEROUS)
    settings = dataclasses.replace(Settings(), limits=limits, hooks=Hooks(private_addresses=True))
    async with open_endpoint() as endpoint, testing.server(settings) as node:
        backend = node.server()
        made = await backend.add_webhook(endpoint.url, kinds=["message"], is_from_start=True)
        assert made.secret is not None
        alice = backend.account("alice")
        conversation_id = await alice.direct("bob")
        await alice.send(conversation_id, "hi")
        await endpoint.until(lambda: endpoint.posts)
        post = endpoint.posts[0]
        request = verify_webhook(made.secret, post.headers["tidings-signature"], post.raw)
        assert (request.conversation_id, request.entries[0].text) == (conversation_id, "hi")
        assert [one.webhook_id for one in await backend.webhooks()] == [made.webhook_id]
        count = len(endpoint.posts)
        await backend.replay_webhook(made.webhook_id, conversation_id, 1)
        await endpoint.until(lambda: len(endpoint.posts) > count)
        assert (await backend.webhook_state(made.webhook_id)).paused == []
        await backend.remove_webhook(made.webhook_id)
        assert await backend.webhooks() == []


async def test_the_before_send_hook_is_asked_and_the_author_learns_of_a_rewrite() -> None:
    async with open_endpoint() as endpoint:
        endpoint.answer = json.dumps({"verdict": "rewrite", "text": "polite"})
        hooks = Hooks(private_addresses=True, before_send_url=endpoint.url, timeout_ms=10_000)
        async with testing.server(dataclasses.replace(Settings(), hooks=hooks)) as node:
            alice = await node.client("alice")
            conversation_id = await node.server().account("alice").direct("bob")
            sent = await alice.send(conversation_id, "rude")
            assert sent.text == "polite"
            rest = await node.server().account("alice").send(conversation_id, "rude", message_id=sent.message_id)
            assert (rest.duplicate, rest.text) == (True, "polite")
        (post,) = endpoint.posts
        body, at = post.raw, post.headers["tidings-signature"].partition(",")[0].removeprefix("t=")
        mac = hmac.new(b"secret", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
        request = verify_before_send("secret", f"t={at},v1={mac}", body)
        assert (request.conversation_id, request.message.text) == (conversation_id, "rude")
        with pytest.raises(ValueError, match="not of this secret"):
            verify_before_send("secret", post.headers["tidings-signature"], body)


def test_a_request_that_is_not_ours_is_refused() -> None:
    for signature in ("t=1,v1=00", "nonsense", ""):
        with pytest.raises(ValueError, match="not of this secret"):
            verify_webhook("secret", signature, b"{}")
    mac = hmac.new(b"secret", b"1.{}", hashlib.sha256).hexdigest()
    with pytest.raises(ValueError, match="too old"):
        verify_webhook("secret", f"t=1,v1={mac}", b"{}")
