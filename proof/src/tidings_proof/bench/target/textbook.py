"""The same product as a good developer writes it in an afternoon: what Tidings' batched pipeline is compared with.

One process, FastAPI on uvicorn, redis-py and SQLite. A message takes INCR for its number, one commit (WAL,
synchronous=FULL), then one pipeline: ZADD for the inbox of each member, ZADD for the unread set of each recipient, and
PUBLISH; then the ok. It speaks the little of the protocol that the generator uses. It does less than a node: no
deduplication, no limiter, no totals, no ticks, no repair, no resume.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import redis.asyncio
import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, WebSocket, WebSocketDisconnect
from pydantic import BaseModel

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (conversation_id TEXT, seq INTEGER, message_id TEXT, sender_id TEXT, text TEXT,
  sent_at INTEGER, PRIMARY KEY (conversation_id, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS conversations (conversation_id TEXT PRIMARY KEY, name TEXT, preview TEXT, last_seq INTEGER,
  last_ts INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (conversation_id TEXT, user_id TEXT, PRIMARY KEY (conversation_id, user_id))
  WITHOUT ROWID;
"""
INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)"
UPDATE = "UPDATE conversations SET preview = ?, last_seq = ?, last_ts = ? WHERE conversation_id = ?"
PAGE = """SELECT seq, message_id, sender_id, text, sent_at FROM messages
  WHERE conversation_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?"""


def open_database(data: Path) -> sqlite3.Connection:
    database = sqlite3.connect(data / "textbook.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.executescript(SCHEMA)
    database.row_factory = sqlite3.Row
    return database


class Message(BaseModel):
    seq: int
    message_id: str
    sender_id: str
    text: str
    sent_at: int


class Page(BaseModel):
    messages: list[Message]


class Conversation(BaseModel):
    conversation_id: str
    name: str
    preview: str
    last_seq: int
    last_ts: int
    unread: int


class Inbox(BaseModel):
    conversations: list[Conversation]


class NewConversation(BaseModel):
    members: list[str]
    name: str = ""


class Created(BaseModel):
    conversation_id: str


class Chat:
    """The whole server's state."""

    def __init__(self, data: Path, valkey: str, secret: str) -> None:
        self.secret = secret.encode()
        self.redis = redis.asyncio.Redis(unix_socket_path=valkey, max_connections=1000, decode_responses=True)
        self.sockets: dict[str, WebSocket] = {}
        self.database = open_database(data)
        self.members: dict[str, list[str]] = {}
        for conversation_id, user_id in self.database.execute("SELECT conversation_id, user_id FROM members"):
            self.members.setdefault(conversation_id, []).append(user_id)

    def user_of(self, token: str) -> str:
        text, _, signature = token.rpartition(".")
        right = hmac.new(self.secret, text.encode(), hashlib.sha256).digest()
        claims = json.loads(_unpacked(text.partition(".")[2]))
        if not hmac.compare_digest(right, _unpacked(signature)) or claims["exp"] < time.time():
            raise HTTPException(401)
        return str(claims["sub"])

    def require_member(self, conversation_id: str, user_id: str) -> list[str]:
        members = self.members.get(conversation_id, [])
        if user_id not in members:
            raise HTTPException(404)
        return members

    # --- writing ------------------------------------------------------------------------------------

    def create(self, name: str, members: list[str]) -> str:
        conversation_id = f"c{len(self.members)}"
        with self.database:
            self.database.execute("INSERT INTO conversations VALUES (?, ?, '', 0, 0)", (conversation_id, name))
            rows = [(conversation_id, user_id) for user_id in members]
            self.database.executemany("INSERT INTO members VALUES (?, ?)", rows)
        self.members[conversation_id] = members
        return conversation_id

    async def send(self, sender_id: str, frame: dict[str, Any]) -> dict[str, Any]:
        """One message: numbered, stored, counted for everyone, published."""
        conversation_id, message_id, text = frame["conversation_id"], frame["message_id"], frame["text"]
        members, sent_at = self.require_member(conversation_id, sender_id), time.time_ns() // 1_000_000
        seq = await self.redis.incr(f"seq:{conversation_id}")
        with self.database:
            self.database.execute(INSERT, (conversation_id, seq, message_id, sender_id, text, sent_at))
            self.database.execute(UPDATE, (text[:120], seq, sent_at, conversation_id))
        message = {"seq": seq, "message_id": message_id, "sender_id": sender_id, "text": text, "sent_at": sent_at}
        event = {"type": "message.new", "conversation_id": conversation_id, "message": message}
        pipeline = self.redis.pipeline(transaction=False)
        for user_id in members:
            pipeline.zadd(f"inbox:{user_id}", {conversation_id: sent_at})
            if user_id != sender_id:
                pipeline.zadd(f"unread:{user_id}:{conversation_id}", {str(seq): seq})
        pipeline.publish(f"conversation:{conversation_id}", json.dumps(event))
        await pipeline.execute()
        return {"id": frame["id"], "type": "ok", "message_id": message_id, "seq": seq, "sent_at": sent_at}

    async def mark_read(self, user_id: str, frame: dict[str, Any]) -> dict[str, Any]:
        conversation_id = frame["conversation_id"]
        self.require_member(conversation_id, user_id)
        await self.redis.zremrangebyscore(f"unread:{user_id}:{conversation_id}", 0, frame["seq"])
        return {"id": frame["id"], "type": "ok"}

    # --- reading ------------------------------------------------------------------------------------

    def page(self, conversation_id: str, before_seq: int, limit: int) -> Page:
        rows = self.database.execute(PAGE, (conversation_id, before_seq, limit)).fetchall()
        return Page(messages=[Message(**row) for row in reversed(rows)])

    async def inbox(self, user_id: str, limit: int) -> Inbox:
        """The newest conversations with their counts."""
        ids = [str(one) for one in await self.redis.zrevrange(f"inbox:{user_id}", 0, limit - 1)]
        pipeline = self.redis.pipeline(transaction=False)
        for conversation_id in ids:
            pipeline.zcard(f"unread:{user_id}:{conversation_id}")
        counts = await pipeline.execute()
        marks = ",".join("?" * len(ids))
        rows = self.database.execute(f"SELECT * FROM conversations WHERE conversation_id IN ({marks})", ids)
        found = {row["conversation_id"]: row for row in rows}
        return Inbox(
            conversations=[Conversation(**found[one], unread=count) for one, count in zip(ids, counts, strict=True)]
        )

    # --- sockets ------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """The process's one subscription: each message goes to the sockets of the members who are here."""
        subscription = self.redis.pubsub()
        await subscription.psubscribe("conversation:*")
        async for event in subscription.listen():
            if event["type"] == "pmessage":
                await self.deliver(event["channel"].removeprefix("conversation:"), event["data"])

    async def deliver(self, conversation_id: str, text: str) -> None:
        sender_id = json.loads(text)["message"]["sender_id"]
        for user_id in self.members[conversation_id]:
            if user_id != sender_id and user_id in self.sockets:
                await self.sockets[user_id].send_text(text)

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept()
        user_id = self.user_of((await socket.receive_json())["token"])
        self.sockets[user_id] = socket
        await socket.send_json({"id": 0, "type": "hello", "user_id": user_id})
        try:
            while True:
                frame = await socket.receive_json()
                work = self.send if frame["type"] == "message.send" else self.mark_read
                await socket.send_json(await work(user_id, frame))
        except WebSocketDisconnect:
            if self.sockets.get(user_id) is socket:  # the user may be back on another one already
                del self.sockets[user_id]


def _unpacked(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def build(data: Path, valkey: str, secret: str) -> FastAPI:
    chat = Chat(data, valkey, secret)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        listening = asyncio.create_task(chat.listen(), name="listen")
        yield
        listening.cancel()

    app = FastAPI(lifespan=life)

    async def user_of(authorization: Annotated[str, Header()]) -> str:
        return chat.user_of(authorization.removeprefix("Bearer "))

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/conversations")
    async def create(new: NewConversation, user_id: Annotated[str, Depends(user_of)]) -> Created:
        return Created(conversation_id=chat.create(new.name, [user_id, *new.members]))

    @app.get("/v1/conversations/{conversation_id}/messages")
    async def messages(
        conversation_id: str, user_id: Annotated[str, Depends(user_of)], before_seq: int = 2**62, limit: int = 20
    ) -> Page:
        chat.require_member(conversation_id, user_id)
        return chat.page(conversation_id, before_seq, min(limit, 100))

    @app.get("/v1/inbox")
    async def inbox(user_id: Annotated[str, Depends(user_of)], limit: int = 20) -> Inbox:
        return await chat.inbox(user_id, min(limit, 100))

    @app.websocket("/v1/ws")
    async def socket(websocket: WebSocket) -> None:
        await chat.serve(websocket)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="The textbook server. TEXTBOOK_SECRET signs the tokens.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--valkey", required=True, help="path of the server's unix socket")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    uvicorn.run(
        build(given.data, given.valkey, os.environ["TEXTBOOK_SECRET"]),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        ws_per_message_deflate=False,
    )


if __name__ == "__main__":
    main()
