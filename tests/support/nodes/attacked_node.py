"""The node that the attack tests share: a process of its own, whose log must never hold a text or a token.

`Attacked` is what an attacker has: a port, tokens of several users, REST and raw WebSockets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gateway.raw_websocket import Wire, http
from tests.support.nodes.node_process import NodeProcess

CANARY = "canary-of-the-texts-zzyzx"  # in every text that is sent
Answer = tuple[int, Any]
BAD_IDS = {  # what no user, conversation, message or device may be called
    "braces": "{}",
    "tag": "a{b}c",
    "hash": "a#b",
    "crlf": "a\r\nX-Evil: 1",
    "newline-at-the-end": "alice\n",
    "nul": "a\0b",
    "space": "a b",
    "letters": "älice",
    "empty": "",
    "long": "x" * 10_240,
}


class Attacked:
    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.port = node.port
        self._names = itertools.count(1)

    def fresh(self, name: str) -> str:
        """A user of this test alone."""
        return f"{name}{next(self._names)}"

    def token(self, user_id: str) -> str:
        return self.node.token(user_id)

    async def rest(self, user_id: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        status, _, answer = await self.answer(user_id, method, path, body, **headers)
        return status, answer

    async def answer(
        self, user_id: str, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        named = {"Authorization": f"Bearer {self.token(user_id)}"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await http(self.port, method, path, body, named)

    async def wire(self, user_id: str, **fields: Any) -> Wire:
        wire = await Wire.open(self.port)
        hello = await wire.connect(self.token(user_id), **fields)
        assert hello["type"] == "hello", hello
        return wire

    def group(self, *user_ids: str, messages: int = 3) -> str:
        """A conversation with something in it."""
        c = self.node.create_group(user_ids)
        for n in range(messages):
            body = {"message_id": f"m{n}", "text": f"{CANARY} {n}"}
            status, _ = self.node.rest("POST", f"/v1/conversations/{c}/messages", body, user_ids[0])
            assert status == 201
        return c

    def check_unharmed(self) -> None:
        """The same process, at work."""
        status, _ = self.node.rest("GET", "/readyz")
        assert status == 200
        self.node.check_alive()


@contextmanager
def attacked(folder: Path) -> Iterator[Attacked]:
    """Everything is logged; at the end nothing of it may be a text, a token or a traceback."""
    with NodeProcess(folder, {"TIDINGS_LOG_LEVEL": "debug"}) as node:
        made = Attacked(node.start())
        yield made
        made.check_unharmed()
        node.stop()
        said = node.said()
        assert [word for word in (CANARY, "eyJ", "Traceback", '"unexpected"') if word in said] == [], said
