"""Import the messages of another system, from lines of JSON on stdin:

    {"id": "old-1", "from": "alice", "to": "bob", "text": "hi", "ts": 1794770399000}

`ts` remains the time that users see. A second run stores nothing twice, because the ids are the same.
"""

import asyncio
import json
import os
import sys

from tidings_client import Server


async def main() -> None:
    stored_count = 0
    async with Server(os.environ["URL"], os.environ["API_KEY"]) as server:
        for line in sys.stdin:
            old = json.loads(line)
            sender = server.account(old["from"])
            conversation_id = await sender.direct(old["to"])
            sent = await sender.send(conversation_id, old["text"], message_id=old["id"], ts=old["ts"])
            stored_count += not sent.duplicate
    print("stored", stored_count)


asyncio.run(main())
