"""The table of benchmarks: their words and their sizes. It imports nothing heavy, so that `tidings --help` is instant.

A benchmark without a URL runs on nodes of its own and compares its figures with targets. With a URL it puts the same
kind of load on that server; its figures then have no targets, because they depend on a machine that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "seconds": ("--seconds", float, "length of each measurement"),
    "clients": ("--clients", int, "clients at the same time"),
    "in_flight": ("--in-flight", int, "unanswered messages of each sender"),
    "rate": ("--rate", float, "messages a second, or pieces of one"),
    "members": ("--members", int, "members of the channel"),
    "conversations": ("--conversations", int, "conversations"),
    "messages": ("--messages", int, "messages in each conversation"),
    "nodes": ("--nodes", int, "the largest number of nodes"),
    "rounds": ("--rounds", int, "turns of each server"),
    "sockets": ("--sockets", int, "sockets of the user who floods"),
    "inboxes": ("--inboxes", int, "users with very big inboxes"),
    "most": ("--most", int, "only sizes up to this one"),
    "only": ("--only", str, "one part alone"),
    "conversation_id": ("--conversation", str, "a conversation with archived messages"),
    "user_id": ("--user", str, "a member of that conversation"),
}


def result_file(text: str) -> Path:
    """The file of `--out`. Raises ValueError before anything is measured, where it could not be written afterwards."""
    if Path(text).is_dir():
        raise ValueError(f"{text} is a folder")
    return Path(text)


Sizes = dict[str, Any]  # a name in FLAGS -> its default


@dataclass(frozen=True)
class Benchmark:
    about: str
    sizes: Sizes
    quick: Sizes = field(default_factory=dict)  # sizes for a run of seconds, which says nothing about a server
    sizes_on_url: Sizes | None = None  # None: only on nodes of its own
    has_targets: bool = True
    room: str = "claims"  # the folder of its module
    has_runs: bool = True  # on nodes of its own it has runs that a plot can draw
    only: tuple[str, ...] = ()

    @property
    def has_plot(self) -> bool:
        return self.has_runs or self.sizes_on_url is not None


BENCHMARKS: dict[str, Benchmark] = {
    "connect": Benchmark(
        "sockets that are opened, greeted and closed again",
        {"seconds": 10.0, "clients": 50},
        sizes_on_url={"seconds": 10.0, "clients": 50},
        has_targets=False,
    ),
    "send": Benchmark(
        "durable messages, acknowledged and received, between pairs of users",
        {"seconds": 15.0, "clients": 200, "in_flight": 4, "rate": 500.0, "only": None},
        {"seconds": 0.5, "clients": 8},
        {"seconds": 10.0, "clients": 100, "in_flight": 4, "rate": None},
        only=("tidings", "textbook"),
    ),
    "history": Benchmark(
        "pages of 20 messages, newest first",
        {"seconds": 10.0, "clients": 16, "messages": 2_000},
        {"seconds": 0.5, "clients": 2, "messages": 100},
        {"seconds": 10.0, "clients": 16, "messages": 500},
    ),
    "inbox": Benchmark(
        "opens of an inbox with many conversations",
        {"seconds": 5.0, "conversations": 5_000},
        {"seconds": 0.5, "conversations": 500},
        {"seconds": 10.0, "clients": 16, "conversations": 200},
    ),
    "unread": Benchmark("counts and marks with 10 to 10,000 unread messages", {}, has_runs=False),
    "limiter": Benchmark(
        "decisions of the rate limiter",
        {"seconds": 2.0},
        {"seconds": 0.1},
        {"seconds": 10.0, "clients": 10},
        has_runs=False,
    ),
    "flood": Benchmark(
        "what others notice of one user who floods",
        {"seconds": 30.0, "clients": 100, "rate": 10_000.0, "sockets": 4},
        {"seconds": 1.0, "clients": 4, "rate": 500.0},
        has_runs=False,
    ),
    "isolation": Benchmark(
        "what others notice of strangers, bursts, invented receipts and very big inboxes",
        {
            "seconds": 10.0,
            "clients": 100,
            "sockets": 10,
            "members": 200,
            "messages": 50,
            "inboxes": 8,
            "conversations": 50_000,
            "only": None,
        },
        {"seconds": 0.5, "clients": 4, "sockets": 2, "members": 4, "messages": 2, "inboxes": 2, "conversations": 20},
        has_runs=False,
        only=("strangers", "receipts", "burst", "creates", "refresh", "abandon", "after_close", "rebuild"),
    ),
    "fanout": Benchmark(
        "posts in a channel, of which many members are online",
        {"seconds": 10.0, "clients": 200, "members": 1_000, "in_flight": 4, "only": None},
        {"seconds": 0.5, "clients": 4, "members": 20},
        {"seconds": 10.0, "clients": 50, "members": 200, "in_flight": 4},
        only=("posts", "receipts"),
    ),
    "large": Benchmark(
        "posts in a channel of very many members, and inboxes with large conversations",
        {"seconds": 10.0, "clients": 500, "members": 100_000, "in_flight": 1, "conversations": 100},
        {"seconds": 0.5, "clients": 4, "members": 20, "conversations": 4},
        room="growing",
    ),
    "stores": Benchmark(
        "the same messages and pages with the tables on SQLite and on PostgreSQL",
        {"seconds": 8.0, "clients": 200, "in_flight": 4, "messages": 2_000, "rounds": 3},
        {"seconds": 0.5, "clients": 8, "messages": 100, "rounds": 1},
        room="growing",
        has_runs=False,
    ),
    "streaming": Benchmark(
        "pieces of a streamed answer, at everybody who watches",
        {"seconds": 40.0, "clients": 50, "rate": 100.0},
        {"seconds": 0.5, "clients": 2},
        room="trials",
        has_runs=False,
    ),
    "copy": Benchmark(
        "all tables copied from SQLite to PostgreSQL and back",
        {"conversations": 1_000, "messages": 1_000},
        {"conversations": 4, "messages": 50},
        room="growing",
        has_runs=False,
    ),
    "workers": Benchmark(
        "the same messages on 1 worker and on 2",
        {"seconds": 8.0, "clients": 200, "in_flight": 4, "rounds": 3},
        {"seconds": 0.5, "clients": 8, "rounds": 1},
        room="growing",
    ),
    "scale": Benchmark(
        "the same load for each of 1, 2 and 3 nodes",
        {"seconds": 15.0, "clients": 72, "rate": 200.0, "nodes": 3},
        {"seconds": 0.5, "clients": 8, "rate": 20.0},
    ),
    "memory": Benchmark(
        "bytes of the keyspace for each conversation, unread message and connection",
        {"most": None},
        {"most": 100},
        has_runs=False,
    ),
    "connections": Benchmark(
        "memory and CPU of idle connections",
        {"seconds": 30.0, "clients": 10_000},
        {"seconds": 1.0, "clients": 50},
        has_runs=False,
    ),
    "resume": Benchmark(
        "clients that all reconnect at once to what they missed",
        {"seconds": 5.0, "clients": 2_000},
        {"seconds": 0.5, "clients": 20},
        {"seconds": 10.0, "clients": 200},
        has_runs=False,
    ),
    "archive": Benchmark(
        "texts that move to the cold tier, and pages of 20 from there",
        {"seconds": 8.0, "clients": 8, "conversations": 100, "messages": 1_000},
        {"seconds": 0.5, "clients": 2, "conversations": 4, "messages": 100},
        {"seconds": 10.0, "clients": 8, "conversation_id": None, "user_id": None},
    ),
    "search": Benchmark(
        "searches over all messages of a user, and how soon a message is found",
        {"seconds": 10.0, "clients": 200, "conversations": 10_000, "messages": 100},
        {"seconds": 0.5, "clients": 4, "conversations": 50, "messages": 20},
        has_runs=False,
    ),
    "growth": Benchmark(
        "CPU per operation as one size grows, with a picture of each curve",
        {"seconds": 3.0, "clients": 48, "most": None, "only": None},
        {"seconds": 0.5, "clients": 8, "most": 20},
        has_runs=False,
        only=("conversations", "members", "unread", "nodes", "batches"),
    ),
}
WITH_TARGETS = tuple(name for name, one in BENCHMARKS.items() if one.has_targets)
