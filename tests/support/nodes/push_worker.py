"""A push worker as a process of its own, so that a test can kill it.

`python -m tests.support.nodes.push_worker NODE KEYSPACE TABLES APNS_URL APNS_KEY` carries out jobs until SIGTERM. No
lease and no request runs out, however busy the machine is: PostOffice.let_go lets the jobs of a dead worker go.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys

import pytest

from tests.support.messaging.push_node import LEASE_S, open_office
from tests.support.servers.push_services import KEY_ID, TEAM_ID, TOPIC
from tidings import bounds
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.stores.keyspace import link
from tidings.stores.push import http
from tidings.stores.push.apns import Apns


async def run(node_id: str, keyspace: str, tables: str, url: str, key: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settings = dataclasses.replace(Settings(), keyspace=keyspace, tables=tables)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((http, "PUSH_SEND_S"), (bounds, "PUSH_JOB_S"), (link, "KEYSPACE_COMMAND_S")):
            patch.setattr(module, name, LEASE_S)
        await work(settings, node_id, url, key, stopped)


async def work(settings: Settings, node_id: str, url: str, key: str, stopped: asyncio.Event) -> None:
    async with open_office(settings) as office:
        apns = Apns(url=url, key=key, key_id=KEY_ID, team_id=TEAM_ID, topic=TOPIC, clock=Clock())
        worker = office.worker(node_id, providers={"apns": apns}, idle_s=LEASE_S)
        worker.start()
        await stopped.wait()
        await worker.stop()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
