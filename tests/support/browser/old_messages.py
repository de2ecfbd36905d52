"""Messages of another time: a group that was imported, whose messages have dates of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.browser.people import People

JANUARY_15 = 1_705_320_000_000  # of 2024
DAY_MS = 86_400_000


async def import_group(
    people: People, folder: Path, group: str, members: Sequence[str], sent_at: Sequence[int]
) -> None:
    """The last member says "long ago 0" and so on, at these times."""
    lines = [
        {"type": "conversation", "conversation_id": group, "kind": "group", "name": "old group", "members": members},
        *(
            {"type": "message", "conversation_id": group, "message_id": f"m{number}", "sender_id": members[-1]}
            | {"text": f"long ago {number}", "sent_at": at_ms}
            for number, at_ms in enumerate(sent_at)
        ),
    ]
    file = folder / "old.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = await asyncio.to_thread(people.node.tidings, "import", "jsonl", str(file))
    assert done.returncode == 0, done.stderr
