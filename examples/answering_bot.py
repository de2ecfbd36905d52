"""A bot: it answers each question once, also after a restart, or when two of it run.

tidings serve --dev
export URL=http://127.0.0.1:8000 KEY=$(tidings key create --name helper --role bot --user helper)
CURSOR=helper.cursor python examples/answering_bot.py
"""

import asyncio
import os
from pathlib import Path

from tidings_client import Client, MessageNew, Problem

KEPT = Path(os.environ["CURSOR"])  # how far the bot has read
NEW = KEPT.with_suffix(".new")


async def answer(bot: Client, event: MessageNew) -> None:
    asked = event.message
    if asked.kind == "message" and asked.sender_id != bot.user_id and (asked.text or "").endswith("?"):
        try:  # the id is the same for the same question, so a second answer is not stored
            await bot.send(event.conversation_id, f"You asked: {asked.text}", message_id=f"re-{asked.seq}")
        except Problem as problem:
            if problem.code != "conflict":  # another worker gave another answer
                raise


async def main(cursor: str | None) -> None:
    async with Client(os.environ["URL"], os.environ["KEY"]) as bot:
        entries = await bot.entries(after=cursor).begin()
        print("listening as", bot.user_id, flush=True)
        async for event in entries:
            await answer(bot, event)
            await asyncio.to_thread(NEW.write_text, entries.cursor)
            await asyncio.to_thread(NEW.replace, KEPT)  # whenever the bot is killed, the file is whole


asyncio.run(main(KEPT.read_text() if KEPT.exists() else None))
