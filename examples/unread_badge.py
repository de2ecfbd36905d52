"""Print the unread count of a user whenever it changes, here or on any other device of the user."""

import asyncio
import os

from tidings_client import Client


async def main() -> None:
    shown: int | None = None
    client = Client(os.environ["URL"], os.environ["TOKEN"])
    events = client.events()  # before connecting: the first event is the connection itself
    async with client:
        async for _ in events:
            if client.total_unread != shown:
                shown = client.total_unread
                print("unread:", shown, flush=True)


asyncio.run(main())
