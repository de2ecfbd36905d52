"""A push worker as a process of its own, so that a test can kill it.

`python -m tests.support.nodes.push_worker NODE KEYSPACE TABLES APNS_URL APNS_KEY` carries out jobs until SIGTERM. It
takes over the jobs of a dead worker after ten seconds.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys

from tests.support.messaging.push_node import open_office
from tests.support.servers.push_services import KEY_ID, TEAM_ID, TOPIC
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.stores.push.apns import Apns


async def run(node_id: str, keyspace: str, tables: str, url: str, key: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settings = dataclasses.replace(Settings(), keyspace=keyspace, tables=tables)
    async with open_office(settings) as office:
        apns = Apns(url=url, key=key, key_id=KEY_ID, team_id=TEAM_ID, topic=TOPIC, clock=Clock())
        worker = office.worker(node_id, providers={"apns": apns}, idle_s=10.0)
        worker.start()
        await stopped.wait()
        await worker.stop()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
