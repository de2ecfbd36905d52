from __future__ import annotations

import json

from tidings.gateway.http.docs.asyncapi import asyncapi_of

CLIENT = {
    "connect", "message.send", "message.abandon", "message.delivered", "message.read", "message.unread", "inbox",
    "history", "reaction", "watch", "typing", "auth.refresh", "ping", "message.begin", "message.append", "message.end",
}  # fmt: skip
SERVER = {
    "hello", "ok", "error", "pong", "draining", "message.new", "read.synced", "resumed", "receipt", "receipts",
    "typing", "presence", "block", "scheduled.failed", "draft",
    "conversation.added", "conversation.updated", "conversation.removed",
    "device.removed", "message.appended",
}  # fmt: skip


def test_every_frame_is_described_in_its_direction() -> None:
    api = asyncapi_of()

    def names(operation: str) -> set[str]:
        listed = [one["$ref"].split("/")[-1] for one in api["operations"][operation]["messages"]]
        return {api["components"]["messages"][name]["name"] for name in listed}

    assert names("hear") == CLIENT
    assert names("say") == SERVER


def test_every_reference_leads_somewhere() -> None:
    api = asyncapi_of()
    text = json.dumps(api)
    for part in text.split('"#/')[1:]:
        node = api
        for step in part.split('"')[0].split("/"):
            node = node[step]


def test_the_close_codes_are_told() -> None:
    told = asyncapi_of()["info"]["description"]
    assert all(str(code) in told for code in (1009, 4001, 4004, 4005, 4008, 4012, 4013, 4014, *range(4500, 4506)))
