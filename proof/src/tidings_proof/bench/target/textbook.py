"""The same design as a tutorial would write it: what Tidings' batched pipeline is compared with.

One process, FastAPI on uvicorn, redis-py, and one awaited command after another for every message: INCR for the number,
one SQLite commit (WAL, synchronous=FULL) of the message and two conversation rows, ZADD for each inbox, ZADD for the
unread set, PUBLISH to the recipient, then the ok. It speaks the little of the protocol that the generator uses. It does
less than a node: no check of the token, no deduplication, no limiter, no totals, no ticks, no repair.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis.asyncio
import uvicorn
from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect

SCHEMA = """
CREATE TABLE messages (conversation_id TEXT, seq INTEGER, message_id TEXT, sender_id TEXT, text TEXT, sent_at INTEGER,
  PRIMARY KEY (conversation_id, seq)) WITHOUT ROWID;
CREATE TABLE conversations (user_id TEXT, conversation_id TEXT, preview TEXT, last_seq INTEGER, last_ts INTEGER,
  PRIMARY KEY (user_id, conversation_id)) WITHOUT ROWID;
"""
INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)"
UPSERT = """INSERT INTO conversations VALUES (?, ?, ?, ?, ?) ON CONFLICT (user_id, conversation_id)
  DO UPDATE SET preview = excluded.preview, last_seq = excluded.last_seq, last_ts = excluded.last_ts"""


class Chat:
    """The whole server's state."""

    def __init__(self, data: Path, valkey: str) -> None:
        self.redis = redis.asyncio.Redis(unix_socket_path=valkey, max_connections=1000)
        self.subscription = self.redis.pubsub()
        self.sockets: dict[str, WebSocket] = {}
        self.members: dict[str, list[str]] = {}
        self.database = sqlite3.connect(data / "textbook.db")
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=FULL")
        self.database.executescript(SCHEMA)

    async def send(self, sender_id: str, frame: dict[str, Any]) -> dict[str, Any]:
        """One message, one step after the other."""
        conversation_id, text, sent_at = frame["conversation_id"], frame["text"], time.time_ns() // 1_000_000
        recipient_id = next(user_id for user_id in self.members[conversation_id] if user_id != sender_id)
        seq = await self.redis.incr(f"seq:{conversation_id}")
        self.store(conversation_id, seq, frame["message_id"], sender_id, recipient_id, text, sent_at)
        for user_id in (sender_id, recipient_id):
            await self.redis.zadd(f"inbox:{user_id}", {conversation_id: sent_at})
        await self.redis.zadd(f"unread:{recipient_id}:{conversation_id}", {str(seq): sent_at})
        message = {"seq": seq, "message_id": frame["message_id"], "sender_id": sender_id, "text": text}
        event = {"type": "message.new", "conversation_id": conversation_id, "message": {**message, "sent_at": sent_at}}
        await self.redis.publish(f"user:{recipient_id}", json.dumps(event))
        return {"id": frame["id"], "type": "ok", "message_id": frame["message_id"], "seq": seq, "sent_at": sent_at}

    def store(
        self, conversation_id: str, seq: int, message_id: str, sender_id: str, recipient_id: str, text: str, at: int
    ) -> None:
        with self.database:
            self.database.execute(INSERT, (conversation_id, seq, message_id, sender_id, text, at))
            for user_id in (sender_id, recipient_id):
                self.database.execute(UPSERT, (user_id, conversation_id, text[:120], seq, at))

    async def listen(self) -> None:
        """The process's one subscription: what is published for its users goes to their sockets."""
        await self.subscription.subscribe("started")
        async for event in self.subscription.listen():
            user_id = event["channel"].decode().removeprefix("user:")
            if event["type"] == "message" and user_id in self.sockets:
                await self.sockets[user_id].send_text(event["data"].decode())

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept()
        user_id = _user_of((await socket.receive_json())["token"])
        self.sockets[user_id] = socket
        await self.subscription.subscribe(f"user:{user_id}")
        await socket.send_json({"id": 0, "type": "hello", "user_id": user_id})
        try:
            while True:
                await socket.send_json(await self.send(user_id, await socket.receive_json()))
        except WebSocketDisconnect:
            if self.sockets.get(user_id) is socket:  # the user may be back on another one already
                del self.sockets[user_id]


def _user_of(token: str) -> str:
    claims = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"])


def build(data: Path, valkey: str) -> FastAPI:
    chat = Chat(data, valkey)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        listening = asyncio.create_task(chat.listen(), name="listen")
        yield
        listening.cancel()

    app = FastAPI(lifespan=life)

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/conversations")
    async def create(request: Request) -> dict[str, str]:
        members = [_user_of(request.headers["authorization"].split()[1]), *(await request.json())["members"]]
        chat.members[conversation_id := f"c{len(chat.members)}"] = members
        return {"conversation_id": conversation_id}

    @app.websocket("/v1/ws")
    async def socket(websocket: WebSocket) -> None:
        await chat.serve(websocket)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="The textbook server, for bench/claims/send.py.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--valkey", required=True, help="path of the server's unix socket")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    uvicorn.run(
        build(given.data, given.valkey),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        ws_per_message_deflate=False,
    )


if __name__ == "__main__":
    main()
