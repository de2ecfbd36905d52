"""A bot: it answers every message with its text. URL and TOKEN come from the environment.

tidings serve --dev
URL=http://127.0.0.1:8000 TOKEN=$(tidings token create --dev --user echo) python examples/echo_bot.py
"""

import asyncio
import os

from tidings_client import Client, MessageNew


async def main() -> None:
    async with Client(os.environ["URL"], os.environ["TOKEN"], device="bot") as bot:
        print("listening as", bot.user_id, flush=True)
        async for event in bot.events(MessageNew):
            message = event.message
            if message.kind == "message" and message.sender_id != bot.user_id:
                await bot.send(event.conversation_id, f"you said: {message.text}")
                await bot.mark_read(event.conversation_id, message.seq)


asyncio.run(main())
