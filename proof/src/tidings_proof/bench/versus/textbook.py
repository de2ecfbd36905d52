"""The textbook server with data to read: its tables and its Valkey are filled before it starts."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.bench.target.servers import textbook
from tidings_proof.bench.versus.rivals import OPENER, TALK, TEXT, WRITER, ReadingServer, Rival, Server, Sizes

_LIBRARIES = ("fastapi", "redis", "websockets")


def missing() -> str | None:
    lacks = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    return (
        f"no {', '.join(lacks)}: pip install 'tidings-proof[peers]', or `make bench` once in a clone" if lacks else None
    )


@contextmanager
def start(data: Path, sizes: Sizes) -> Iterator[Server]:
    with textbook(data, lambda folder: seed(folder, sizes)) as target:
        yield ReadingServer(target, sizes)


def seed(data: Path, sizes: Sizes) -> None:
    """The conversations that are read, as if each message had been sent through the server."""
    import redis

    from tidings_proof.bench.target.textbook import INSERT, open_database

    talks = [(TALK, sizes.talkers, sizes.messages), *((one, [WRITER, OPENER], sizes.unread) for one in sizes.inbox_ids)]
    now_ms = Clock().now_ms()
    with closing(open_database(data)) as database, redis.Redis(unix_socket_path=str(data / "v.sock")) as valkey:
        pipeline = valkey.pipeline(transaction=False)
        with database:
            for at, (id_, members, count) in enumerate(talks):
                row = (id_, id_, TEXT, count, now_ms + at)
                database.execute("INSERT INTO conversations VALUES (?, ?, ?, ?, ?)", row)
                database.executemany("INSERT INTO members VALUES (?, ?)", [(id_, user_id) for user_id in members])
                rows = [(id_, seq, f"m{seq}", WRITER, TEXT, now_ms) for seq in range(1, count + 1)]
                database.executemany(INSERT, rows)
                pipeline.set(f"seq:{id_}", count)
                for user_id in members:
                    pipeline.zadd(f"inbox:{user_id}", {id_: now_ms + at})
                for user_id in members[1:]:
                    pipeline.zadd(f"unread:{user_id}:{id_}", {str(seq): seq for seq in range(1, count + 1)})
        pipeline.execute()


TEXTBOOK = Rival(
    "textbook",
    "FastAPI + Valkey + SQLite",
    "stores each message (SQLite, synchronous=FULL) and counts it for every member; ok follows the commit",
    start,
    missing,
)
