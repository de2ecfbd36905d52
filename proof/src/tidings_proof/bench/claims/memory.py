"""The keyspace holds few bytes for a conversation in an inbox, for an unread message and for a connection.

Users with 20, 100 and 1,000 direct conversations, one unread message in each, and conversations with 1 to 1,000 unread
are made through the public API of a node; then Valkey is asked for the MEMORY USAGE of their keys. operations.md
takes its capacity model from these figures. It counts a key's name and value, not Valkey's own tables: what used_memory
grew by, over the sum of all keys, is beside it.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidings.config.values import SettingsError
from tidings.stores.keyspace.embedded_folder import FOLDER_NAME, socket_path
from tidings.stores.keyspace.keys import Keys
from tidings_proof.bench.load.connections import Tally, connect
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder, own_node, token
from tidings_proof.bench.target.target import Target

CLAIM = "bytes of the keyspace, as MEMORY USAGE counts them"
INBOXES = (20, 100, 1_000)
UNREAD = (1, 10, 100, 1_000)
TEXT = "x" * 64
CONVERSATION_MAX = 400  # bytes for one conversation with one unread message in an inbox of 100
KEYS = Keys()


class Valkey:
    """The Valkey of the node, over its socket."""

    def __init__(self, data: Path) -> None:
        if importlib.util.find_spec("redis") is None:
            raise SettingsError("`bench memory` needs redis, of the peers extra: pip install 'tidings-proof[peers]'")
        import redis

        self._link = redis.Redis(unix_socket_path=str(socket_path(data / FOLDER_NAME)))

    def bytes_of(self, *keys: str) -> int:
        """Together; a key that is not there counts nothing."""
        return sum(int(self._link.memory_usage(key, samples=0) or 0) for key in keys)

    def bytes_of_all(self) -> int:
        return self.bytes_of(*(key.decode() for key in self._link.scan_iter(count=1_000)))

    def used(self) -> int:
        info: Any = self._link.info("memory")
        return int(info["used_memory"])

    def has(self, key: str) -> bool:
        return bool(self._link.exists(key))


def say(server: Target, sender: str, conversation_id: str, count: int) -> None:
    for number in range(count):
        body = {"message_id": f"m{number:06}", "text": TEXT}
        server.call("POST", f"/v1/conversations/{conversation_id}/messages", body, user_id=sender)


def inbox_of(server: Target, size: int) -> tuple[str, list[str]]:
    """A user with so many direct conversations, one unread message in each; their ids."""
    user_id = f"reader-{size:05}"
    server.call("GET", "/v1/inbox", user_id=user_id)  # from here on everything is counted as it comes
    ids = []
    for number in range(size):
        friend = f"friend-{size:05}-{number:05}"
        ids.append(server.direct(friend, user_id))
        say(server, friend, ids[-1], 1)
    server.call("GET", "/v1/inbox", user_id=user_id)
    return user_id, ids


def inboxes(server: Target, valkey: Valkey, sizes: Sequence[int]) -> dict[str, float]:
    """Per conversation: its place in the inbox, its mark, and one unread message."""
    found: dict[str, float] = {}
    for size in sizes:
        user_id, ids = inbox_of(server, size)
        assert valkey.has(KEYS.unread(user_id, ids[0])), "nothing is counted for this user"
        found[f"a place in an inbox of {size}"] = valkey.bytes_of(KEYS.inbox(user_id)) / size
        found[f"a mark of {size}"] = valkey.bytes_of(KEYS.mark(user_id)) / size
        unread = valkey.bytes_of(*(KEYS.unread(user_id, id_) for id_ in ids))
        found[f"one unread message, of {size} conversations"] = unread / size
        found[f"a conversation's own keys, of {size}"] = valkey.bytes_of(*map(KEYS.conv, ids)) / size
    return found


def unread(server: Target, valkey: Valkey, sizes: Sequence[int]) -> dict[str, float]:
    """The set of one conversation with so many unread messages."""
    found: dict[str, float] = {}
    for size in sizes:
        user_id, friend = f"busy-{size:05}", f"talker-{size:05}"
        server.call("GET", "/v1/inbox", user_id=user_id)
        id_ = server.direct(friend, user_id)
        say(server, friend, id_, size)
        server.call("GET", "/v1/inbox", user_id=user_id)
        found[f"{size} unread messages of one conversation"] = valkey.bytes_of(KEYS.unread(user_id, id_))
    return found


def connected(server: Target, valkey: Valkey) -> dict[str, float]:
    """The lease of a user with one device that is connected."""
    user_id = "online-00001"

    async def run() -> float:
        await connect(server.url, token(user_id), Tally(), lambda answer: None)
        return valkey.bytes_of(KEYS.ws(user_id))

    return {"the lease of a connected user": asyncio.run(run())}


def run(given: Any) -> Findings:
    sizes = [size for size in INBOXES if given.most is None or size <= given.most] or [INBOXES[0]]
    with folder() as data, own_node(data) as server:
        valkey = Valkey(data)
        before = valkey.used()
        found = inboxes(server, valkey, sizes)
        grown = valkey.used() - before
        found["used_memory per conversation made, its two users and all"] = grown / sum(sizes)
        found["used_memory over the sum of all keys"] = grown / valkey.bytes_of_all()
        found |= unread(server, valkey, [size for size in UNREAD if given.most is None or size <= given.most])
        found |= connected(server, valkey)
    figures = {name: round(size, 2) for name, size in found.items()}
    return Findings(
        claim=CLAIM,
        settings={
            "inboxes": sizes,
            "unread": list(UNREAD),
            "text_bytes": len(TEXT),
            "ids": "34 characters, as of direct ones",
        },
        figures=figures,
        columns=["", "bytes"],
        rows=[[name, size] for name, size in figures.items()],
        checks=checks_of(figures) if 100 in sizes else [],
    )


def checks_of(figures: dict[str, float]) -> list[Check]:
    parts = ("a place in an inbox of 100", "a mark of 100", "one unread message, of 100 conversations")
    whole = sum(figures[name] for name in parts)
    return [Check("a conversation with one unread, in an inbox of 100", whole, "<=", CONVERSATION_MAX, "bytes")]
