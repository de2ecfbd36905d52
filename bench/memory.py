"""What the keyspace holds for a conversation in an inbox, for an unread message and for a connection, in bytes.

Users with 20, 100 and 1,000 direct conversations, one unread message in each, and conversations with 1 to 1,000 unread
are made through the public API of a node; then Valkey is asked for the MEMORY USAGE of their keys. docs/operations.md
takes its capacity model from these figures. It counts a key's name and value, not Valkey's own tables: what used_memory
grew by, over the sum of all keys, is beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from bench.common import Check, command_of, options, result, show, token, write
from bench.servers import Server, folder, tidings
from tidings.benchmarks.connections import Tally, connect
from tidings.stores.keys import Keys
from tidings.stores.keyspace_folder import FOLDER_NAME, socket_path

NAME = "memory"
CLAIM = "bytes of the keyspace, as MEMORY USAGE counts them"
COLUMNS = ("what", "bytes")
INBOXES = (20, 100, 1_000)
UNREAD = (1, 10, 100, 1_000)
TEXT = "x" * 64
CONVERSATION_MAX = 400  # bytes for one conversation with one unread message in an inbox of 100
KEYS = Keys()


class Valkey:
    """The node's own, asked over its socket."""

    def __init__(self, data: Path) -> None:
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


def say(server: Server, sender: str, conversation_id: str, count: int) -> None:
    for number in range(count):
        body = {"message_id": f"m{number:06}", "text": TEXT}
        server.call("POST", f"/v1/conversations/{conversation_id}/messages", body, user_id=sender)


def inbox_of(server: Server, size: int) -> tuple[str, list[str]]:
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


def inboxes(server: Server, valkey: Valkey, sizes: Sequence[int]) -> dict[str, float]:
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


def unread(server: Server, valkey: Valkey, sizes: Sequence[int]) -> dict[str, float]:
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


def connected(server: Server, valkey: Valkey) -> dict[str, float]:
    """The lease of a user with one device that is connected."""
    user_id = "online-00001"

    async def run() -> float:
        await connect(server.url, token(user_id), Tally(), lambda answer: None)
        return valkey.bytes_of(KEYS.ws(user_id))

    return {"the lease of a connected user": asyncio.run(run())}


def main(words: Sequence[str] | None = None) -> None:
    parser = options(NAME, __doc__, seconds=0)
    parser.add_argument("--small", action="store_true", help="a tenth of it, to see that it runs")
    given = parser.parse_args(words)
    sizes = [size for size in INBOXES if size <= 100 or not given.small]
    with folder() as data, tidings(data) as server:
        valkey = Valkey(data)
        before = valkey.used()
        found = inboxes(server, valkey, sizes)
        grown = valkey.used() - before
        found["used_memory per conversation made, its two users and all"] = grown / sum(sizes)
        found["used_memory over the sum of all keys"] = grown / valkey.bytes_of_all()
        found |= unread(server, valkey, [size for size in UNREAD if size <= 100 or not given.small])
        found |= connected(server, valkey)
    figures = {name: round(size, 2) for name, size in found.items()}
    whole = sum(figures[name] for name in _parts(100))
    checks = [Check("a conversation with one unread, in an inbox of 100", whole, "<=", CONVERSATION_MAX, "bytes")]
    settings = {
        "inboxes": sizes,
        "unread": list(UNREAD),
        "text_bytes": len(TEXT),
        "ids": "34 characters, as of direct ones",
    }
    finished = result(command_of(NAME, parser, given), CLAIM, settings, figures, checks)
    show(finished, COLUMNS, list(figures.items()))
    write(finished, given.out)


def _parts(size: int) -> tuple[str, ...]:
    return f"a place in an inbox of {size}", f"a mark of {size}", f"one unread message, of {size} conversations"


if __name__ == "__main__":
    main()
