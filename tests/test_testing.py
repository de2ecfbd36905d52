from __future__ import annotations

import asyncio
import dataclasses
import inspect

from tidings import testing
from tidings.bounds import Limit
from tidings.config.settings import Limits, Settings
from tidings_client import Client
from tidings_client.errors import RateLimited


async def test_a_whole_node_takes_a_message_and_leaves_nothing_behind() -> None:
    async with testing.server() as server:
        alice, bob = await server.client("alice"), await server.client("bob")
        conversation_id = await alice.direct("bob")
        heard = bob.messages(conversation_id)
        await alice.send(conversation_id, "hello")
        assert (await asyncio.wait_for(anext(heard), 60)).text == "hello"
        folder = server.node.core.settings.data
        assert folder.is_dir()
    assert not folder.exists()


async def test_threads_count_for_their_followers() -> None:
    async with testing.server() as server:
        alice, bob = await server.client("alice"), await server.client("bob")
        id_ = await alice.direct("bob")
        root = await alice.send(id_, "shall we?")
        await bob.send(id_, "yes", thread_seq=root.seq)
        page = await alice.threads.page(filter="unread")
        assert (page.unread_threads, [one.unread_count for one in page.threads]) == (1, [1])
        assert (await alice.unread()).total_unread == 0, "a reply counts in its thread"
        assert (await alice.threads.mark_read(id_, root.seq)).unread_threads == 0


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
