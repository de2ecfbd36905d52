"""An operator at a whole node: an API key of a role, and requests with it."""

from __future__ import annotations

from typing import Any, Literal

from tests.support.gateway.raw_websocket import http
from tidings.gateway.auth import hash_api_key
from tidings.node.node import Node
from tidings.stores.tables.values import ApiKey


class Operator:
    def __init__(self, node: Node, key: str) -> None:
        self.node = node
        self.key = key

    async def ask(self, method: str, path: str, **headers: str) -> tuple[int, Any]:
        """Below /v1/admin, unless it begins with a slash."""
        whole = path if path.startswith("/") else f"/v1/admin/{path}"
        status, _, body = await http(self.node.port, method, whole, None, {"X-Api-Key": self.key, **headers})
        return status, body

    async def look(self, path: str) -> Any:
        status, body = await self.ask("GET", path)
        assert status == 200, body
        return body


async def operator(node: Node, role: Literal["admin", "readonly"] = "admin") -> Operator:
    key = f"tk_of_the_{role}"
    api_key = ApiKey(key_hash=hash_api_key(key), name=f"ops-{role}", role=role, created_ms=0)
    await node.core.tables.accounts.put_api_key(api_key)
    return Operator(node, key)
