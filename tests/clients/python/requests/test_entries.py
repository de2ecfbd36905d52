"""A bot reads every entry once and in order, goes on from its cursor, and answers once."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Literal

import pytest

from tidings import testing
from tidings.clock import Clock
from tidings.config.settings import Limits, Settings
from tidings.gateway.auth import hash_api_key
from tidings.gateway.tokens import new_bot_key
from tidings.node import node as nodes
from tidings.stores.tables.values import ApiKey
from tidings_client import Account, Client, MessageNew, Server
from tidings_client.errors import IdConflict
from tidings_client.requests.entries import Entries

DEADLINE_S = 60


async def take(entries: Entries, count: int) -> list[MessageNew]:
    async with asyncio.timeout(DEADLINE_S):
        return [await anext(entries) for _ in range(count)]


def texts(events: list[MessageNew]) -> list[str | None]:
    return [event.message.text for event in events]


async def test_entries_of_all_conversations_come_once_in_order_and_from_a_cursor_on() -> None:
    async with testing.server() as node:
        bot, alice = node.server().account("bot"), node.server().account("alice")
        one, two = await alice.direct("bot"), (await alice.create("group", ["bot"], name="g")).conversation_id
        await alice.send(one, "old")
        entries = await bot.entries().begin()
        for text in ("a1", "a2"):
            await alice.send(one, text)
        await alice.send(two, "b1")
        found = await take(entries, 3)
        assert sorted(map(str, texts(found))) == ["a1", "a2", "b1"]
        assert texts([event for event in found if event.conversation_id == one]) == ["a1", "a2"]
        cursor = entries.cursor
        await alice.send(one, "a3")
        late = (await alice.create("group", ["carol"], name="late")).conversation_id
        await alice.send(late, "before the bot")
        await alice.add(late, ["bot"])
        await alice.send(late, "after it")
        again = bot.entries(after=cursor)
        assert sorted(map(str, texts(await take(again, 2)))) == ["a3", "after it"]
        everything = await take(bot.entries(after="start"), 4)
        assert texts([event for event in everything if event.conversation_id == one])[:1] == ["old"]
        with pytest.raises(ValueError, match="no cursor"):
            bot.entries(after="nonsense")


async def test_a_connected_bot_hears_of_entries_at_once() -> None:
    async with testing.server() as node:
        alice, bot = node.server().account("alice"), await node.client("bot")
        conversation_id = await alice.direct("bot")
        entries = await bot.entries().begin()
        await alice.send(conversation_id, "one")
        assert texts(await take(entries, 1)) == ["one"]
        await alice.send(conversation_id, "two")
        assert texts(await take(entries, 1)) == ["two"]


async def answer_all(bot: Account, entries: Entries, me: str) -> None:
    """Answer the questions of others, each with an answer of one's own."""
    async for event in entries:
        asked = event.message
        if asked.kind == "message" and asked.sender_id == "alice":
            try:
                await bot.send(event.conversation_id, f"{asked.text} says {me}", message_id=f"re-{asked.seq}")
            except IdConflict:
                continue  # the other worker has answered


async def test_two_workers_on_two_nodes_answer_each_question_once(settings: Settings, tmp_path: Path) -> None:
    generous = Limits(send=testing.GENEROUS, connect=testing.GENEROUS, create=testing.GENEROUS)
    settings = dataclasses.replace(settings, limits=generous)
    async with nodes.open_node(settings) as first:
        other = dataclasses.replace(settings, node=type(settings.node)(id="second"))
        async with nodes.open_node(other) as second:
            keys = new_bot_key("bot", Clock()), "tk_of_the_test"
            roles: list[Literal["bot", "admin"]] = ["bot", "admin"]
            for key, role in zip(keys, roles, strict=True):
                made = ApiKey(key_hash=hash_api_key(key), name=role, role=role, created_ms=Clock().now_ms())
                await first.core.tables.accounts.put_api_key(made)
            urls = [f"http://127.0.0.1:{node.port}" for node in (first, second)]
            async with Server(urls[0], keys[1]) as server, Client(urls[0], keys[0]) as a, Client(urls[1], keys[0]) as b:
                assert (a.user_id, b.user_id) == ("bot", "bot")
                alice = server.account("alice")
                conversation_id = await alice.direct("bot")
                workers = [
                    asyncio.create_task(answer_all(bot, await bot.entries().begin(), name))
                    for bot, name in ((a, "a"), (b, "b"))
                ]
                asked = [(await alice.send(conversation_id, f"q{n}")).seq for n in range(8)]
                answers: list[str | None] = []
                async with asyncio.timeout(DEADLINE_S):
                    while len(answers) < len(asked):
                        page = await alice.page(conversation_id, limit=100)
                        answers = [one.message_id for one in page.messages if one.sender_id == "bot"]
                        await asyncio.sleep(0.02)
                await server.account("bot").send(conversation_id, "no more")
                for worker in workers:
                    worker.cancel()
                assert sorted(map(str, answers)) == sorted(f"re-{seq}" for seq in asked)
