from __future__ import annotations

import asyncio
import dataclasses
import inspect
import time

from tidings import Client, testing
from tidings.config import Limits, Settings
from tidings.config_values import Limit
from tidings.errors import RateLimited


async def test_a_whole_node_is_there_within_a_second_and_leaves_nothing_behind() -> None:
    took_s = []
    for _ in range(3):  # the quickest counts: a busy machine is not the node's fault
        began_s = time.monotonic()
        async with testing.server() as server:
            alice, bob = await server.client("alice"), await server.client("bob")
            conversation_id = await alice.direct("bob")
            heard = bob.messages(conversation_id)
            await alice.send(conversation_id, "hello")
            assert (await asyncio.wait_for(anext(heard), 5)).text == "hello"
            took_s.append(time.monotonic() - began_s)
            folder = server.node.core.settings.data
            assert folder.is_dir()
        assert not folder.exists()
    assert min(took_s) < 1, took_s


def test_a_client_of_the_node_takes_every_option_of_a_client() -> None:
    options = dict(inspect.signature(Client.__init__).parameters)
    for given in ("self", "url", "token"):  # by the node
        del options[given]
    taken = dict(inspect.signature(testing.TestServer.client).parameters)
    assert [taken.get(name) for name in options] == list(options.values())


async def test_several_run_at_once_and_know_nothing_of_each_other() -> None:
    async with testing.server() as one, testing.server() as other:
        assert one.port != other.port and one.api_key != other.api_key
        name = await one.server().account("alice").direct("bob")
        await one.server().account("alice").send(name, "here")
        assert (await one.server().account("bob").unread()).total_unread == 1
        assert (await other.server().account("bob").unread()).total_unread == 0


async def test_settings_of_ones_own_hold() -> None:
    limits = dataclasses.replace(Limits(), send=Limit(1, 60))
    async with testing.server(Settings(limits=limits)) as server:
        alice = server.server().account("alice")
        name = await alice.direct("bob")
        await alice.send(name, "one")
        assert (await alice.rate_limits()).rate_limits["send"].remaining == 0
        task = asyncio.create_task(alice.send(name, "two"))
        done, _ = await asyncio.wait((task,), timeout=0.3)
        assert not done, "it waits for the minute to pass"
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError | RateLimited)
