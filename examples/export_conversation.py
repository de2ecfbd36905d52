"""Print a whole conversation, oldest first, as lines of JSON. The environment has URL, TOKEN and CONVERSATION."""

import asyncio
import os

import msgspec

from tidings_client import Client


async def main() -> None:
    async with Client(os.environ["URL"], os.environ["TOKEN"]) as client:
        entries = [entry async for entry in client.history(os.environ["CONVERSATION"])]
    for entry in reversed(entries):
        print(msgspec.json.encode(entry).decode())


asyncio.run(main())
