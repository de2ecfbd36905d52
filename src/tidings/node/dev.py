"""Dev: what `serve --dev` adds to a node, for the first minutes of a developer.

There is a key for the admin page, and a user `tidings` who greets each person that signs in on the page. The greeter
speaks the public protocol through the Python client. It answers a message with the steps to try next.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tidings.bounds import DEV_TOKEN_TTL_S, GREETINGS_WAITING_MAX
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.gateway.auth import hash_api_key
from tidings.gateway.tokens import mint_token
from tidings.node.events import Events
from tidings.stores.tables.ports import Accounts
from tidings.stores.tables.values import ApiKey
from tidings.tasks import TaskSet
from tidings_client import Client, MessageNew, Problem

log = logging.getLogger("tidings.dev")
GREETER = "tidings"
_AGAIN_S = 1.0  # before the greeter connects again after an error
_HELLO = (
    "Welcome. This conversation is with a bot of this node. Open a second window with ?as=bob, write to each other, "
    "and watch the ticks. Write me something, and I answer."
)
_ANSWERS = (
    "I got it, and it is on disk. Try this: stop the node with Ctrl-C, write something, and start it again.",
    "Also try: edit a message with the arrow key up, or switch the network off and on.",
    "Your own program can do the same: see docs/use/sdk-python.md and docs/use/sdk-javascript.md.",
)


def admin_key(settings: Settings) -> str:
    """The key that --dev gives to the admin page. It follows from the secret, so it is the same at each start."""
    assert settings.dev and settings.auth.secret is not None
    return "tk_" + hmac.new(settings.auth.secret.encode(), b"the admin page of --dev", hashlib.sha256).hexdigest()


async def allow_admin_key(settings: Settings, accounts: Accounts, clock: Clock) -> None:
    """Store the hash of the key, as `tidings key create` does."""
    key_hash = hash_api_key(admin_key(settings))
    if await accounts.api_key(key_hash) is None:
        await accounts.put_api_key(ApiKey(key_hash=key_hash, name="dev", role="admin", created_ms=clock.now_ms()))


@asynccontextmanager
async def greeting(settings: Settings, events: Events, clock: Clock, port: int) -> AsyncIterator[None]:
    """Greet each user whom the page signs in while the block runs."""
    waiting: asyncio.Queue[str] = asyncio.Queue(GREETINGS_WAITING_MAX)

    def greet(user_id: str) -> None:
        if user_id != GREETER and not waiting.full():
            waiting.put_nowait(user_id)

    def token() -> str:
        return mint_token(settings.auth, GREETER, ttl_s=DEV_TOKEN_TTL_S, now_ms=clock.now_ms())

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    events.signed_in_on_page.add(greet)
    tasks = TaskSet(at_most=1)
    tasks.run(_greet_and_answer(f"http://{host}:{port}", token, waiting), "greeter")
    try:
        yield
    finally:
        await tasks.close()


async def _greet_and_answer(url: str, token: Callable[[], str], waiting: asyncio.Queue[str]) -> None:
    """Greet and answer for as long as the node runs. After an error of any kind the greeter connects anew."""
    while True:
        try:
            async with Client(url, token) as me, asyncio.TaskGroup() as group:
                group.create_task(_greet(me, waiting))
                group.create_task(_answer(me))
        except Exception:
            log.exception("greeter begins again")
        await asyncio.sleep(_AGAIN_S)


async def _greet(me: Client, waiting: asyncio.Queue[str]) -> None:
    while True:
        user_id = await waiting.get()
        try:
            direct = await me.direct(user_id)
            await me.send(direct, _HELLO, message_id="welcome")  # the id makes it one greeting for good
        except Problem as problem:
            # A user may have blocked the greeter. Where many come at once, its limits put the greeting off.
            if problem.is_temporary and not waiting.full():
                waiting.put_nowait(user_id)
                await asyncio.sleep(_AGAIN_S)


async def _answer(me: Client) -> None:
    async for event in me.events(MessageNew):
        message = event.message
        if message.text and message.target_seq is None and message.sender_id != me.user_id:
            with suppress(Problem):
                await me.mark_read(event.conversation_id, message.seq)
                answer = _ANSWERS[message.seq // 2 % len(_ANSWERS)]
                await me.send(event.conversation_id, answer, message_id=f"re-{message.seq}")
