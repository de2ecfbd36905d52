"""A worker of the audit stream as a process of its own, so that a test can kill it:
`python -m tests.support.nodes.audit_worker NODE KEYSPACE [hang | STEPS]`. It counts two entries a shard at a time,
as fast as it can, and says a word for each step. With `hang` it takes some, says so, and does nothing more. With a
number it does nothing more after so many steps, however late the test kills it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from urllib.parse import parse_qs, urlsplit, urlunsplit

from tidings.clock import Clock
from tidings.operators.audit.sums import AuditSums
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.audit import SOURCES, AuditScripts
from tidings.stores.keyspace.server import open_keyspace


async def run(node_id: str, url: str, *words: str) -> None:
    parts = urlsplit(url)
    prefix = parse_qs(parts.query)["prefix"][0]
    keyspace = await open_keyspace(urlunsplit(parts._replace(query="")), SOURCES.values(), Clock())
    worker = AuditSums(keyspace, AuditScripts(Keys(prefix)), node_id, idle_s=0.3)
    if words == ("hang",):
        say(sum(map(len, (await worker.take(5)).values())))
    else:
        for _ in range(int(words[0])) if words else itertools.count():
            say(await worker.step(limit=2))
    await asyncio.Event().wait()


def say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
