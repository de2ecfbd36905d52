"""A backend: it sends a customer a message. URL and API_KEY come from the environment.

The message_id names the order, so a second run sends nothing again.
"""

import asyncio
import os

from tidings_client import Server


async def main() -> None:
    async with Server(os.environ["URL"], os.environ["API_KEY"]) as server:
        await server.put_user("shop", name="The shop")
        shop = server.account("shop")
        conversation_id = await shop.direct("alice")
        sent = await shop.send(conversation_id, "Order 1042 has shipped.", message_id="order-1042-shipped")
        print("sent before" if sent.duplicate else "sent", sent.seq)


asyncio.run(main())
