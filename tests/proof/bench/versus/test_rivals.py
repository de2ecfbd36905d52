"""Rivals: the same users and texts for every server, and the servers that are missing by name."""

from __future__ import annotations

from typing import Any

from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus.everyone import EVERYONE
from tidings_proof.bench.versus.ours import OURS
from tidings_proof.bench.versus.rivals import PAGE, QUICK, ReadingServer, Rival, Server, there


def test_a_server_that_is_missing_is_named_with_the_way_to_get_it() -> None:
    lost = Rival("lost", "Lost", "stores nothing", OURS.start, lambda: "apt install lost")
    assert there([OURS, lost]) == ([OURS], {"Lost": "apt install lost"})


def test_everyone_says_what_it_stores() -> None:
    assert EVERYONE[0] is OURS
    assert all(rival.stores.startswith("stores") for rival in EVERYONE)


def test_the_live_works_are_put_on_any_server(target: Target) -> None:
    server = Server(target, QUICK)
    assert len(server.pairs) == QUICK.pairs
    channel = server.channel(4)
    assert len(channel.listeners[target.url]) == 3, "the fourth member sends"
    assert (server.history("http"), server.inbox()) == (None, None)


def test_each_reader_begins_at_another_page(target: Target) -> None:
    load = ReadingServer(target, QUICK).history("http")
    assert load is not None
    first: list[Any] = [one.requests[0] for one in load.readers]
    assert len(set(first)) == QUICK.readers
    assert all(len(one.requests) == QUICK.messages // PAGE for one in load.readers)
