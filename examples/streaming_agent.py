"""An agent: it answers every message word by word, once. The model is a stand-in on this machine.

tidings serve --dev
URL=http://127.0.0.1:8000 TOKEN=$(tidings token create --dev --user agent) python examples/streaming_agent.py
"""

import asyncio
import os
from collections.abc import AsyncIterator

from tidings_client import Client, MessageNew


async def model(question: str) -> AsyncIterator[str]:
    """Stand in for a model: it takes its time for each word."""
    for word in f"You asked: {question} I must think about it.".split(" "):
        await asyncio.sleep(0.01)
        yield word + " "


async def main() -> None:
    async with Client(os.environ["URL"], os.environ["TOKEN"], device="agent") as me:
        print("listening as", me.user_id, flush=True)
        async for event in me.events(MessageNew):
            asked = event.message
            if asked.kind == "message" and asked.sender_id != me.user_id and asked.text:
                once = f"re-{asked.seq}"  # the same id for the same question: two agents, or a restart, answer once
                async with me.streaming(event.conversation_id, reply_to=asked.seq, message_id=once) as out:
                    async for word in model(asked.text):
                        await out.write(word)


asyncio.run(main())
