"""ejabberd with PostgreSQL, both of Debian's packages: the archive of each user, rooms, and stream management.

XMPP has no inbox with counts here. A client reads all that came since its last visit, in pages of 250, and counts by
itself: that is one open. Three settings save CPU: Erlang's schedulers do not spin when idle, tables are not vacuumed,
and a room tells nobody who comes and goes.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.bench.load.connections import Answer, Tally
from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.load.plan import Channel, Pair, Reader, Readers
from tidings_proof.bench.load.xmpp import HOST, PASSWORD, ROOMS, Who, Xmpp, XmppLink, page
from tidings_proof.bench.target.own_node import SECRET, await_ready, child
from tidings_proof.bench.target.processes import descendants
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus.rivals import OPENER, PAGE, TEXT, WRITER, Opens, Rival, Server, Sizes
from tidings_proof.world.dynamodb import NotThere
from tidings_proof.world.ports import free_port
from tidings_proof.world.postgres import PostgresServer, binaries

GET = "apt install ejabberd erlang-p1-pgsql postgresql"
PAGE_MOST = 250  # more of the archive is not in one answer
_LIBRARIES = Path("/usr/lib")
_SCHEMA = Path("/usr/share/ejabberd/sql/pg.sql")
_STEP_US = 1_000  # between two messages of the archive
_DATABASE = {"listen_addresses": "127.0.0.1", "autovacuum": "off", "max_parallel_workers_per_gather": "0"}
_ERLANG = ["+K", "true", "+P", "250000", "+Q", "65536", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"]
_SETTINGS = """
hosts: [{host}]
loglevel: error
listen:
  - {{port: {port}, ip: "127.0.0.1", module: ejabberd_c2s, backlog: 4096, access: all, shaper: none}}
auth_method: [sql]
auth_password_format: plain
disable_sasl_mechanisms: [scram-sha-1, scram-sha-256, scram-sha-512, digest-md5, x-oauth2]
default_db: sql
sql_type: pgsql
sql_server: "127.0.0.1"
sql_port: {sql_port}
sql_database: postgres
sql_username: postgres
sql_password: ""
sql_pool_size: 10
modules:
  mod_mam: {{db_type: sql, default: always}}
  mod_muc:
    max_users: 5000
    history_size: 0
    default_room_options: {{persistent: true, mam: true, presence_broadcast: [], max_users: 5000}}
  mod_stream_mgmt: {{}}
"""
_ARCHIVED = """
INSERT INTO archive (username, timestamp, peer, bare_peer, xml, txt, kind, nick)
SELECT '{user}', {since} + n * {step}, peer || '/r', peer,
  '<message xmlns=''jabber:client'' to=''{user}@{host}'' from=''' || peer || '/r'' type=''chat'' id=''m' || n ||
  '''><body>{text}</body></message>', '{text}', 'chat', ''
FROM (SELECT n, {peer} AS peer FROM generate_series(1, {count}) n) made;
"""


class XmppServer(Server):
    dialect = "xmpp"

    def __init__(self, target: Target, sizes: Sizes, since_us: int) -> None:
        super().__init__(target, sizes)
        self._since_us = since_us

    def token(self, user_id: str) -> str:
        return Who(user_id).token

    @cached_property
    def pairs(self) -> list[Pair]:
        return [
            Pair(
                Who(f"sender{number}", is_sender=True).token,
                self.token(f"recipient{number}"),
                f"recipient{number}@{HOST}",
            )
            for number in range(self.sizes.pairs)
        ]

    def channel(self, members: int) -> Channel:
        room = f"room{members}@{ROOMS}"
        listeners = [Who(f"member{number}", room).token for number in range(1, members)]
        sender = Who("member0", room, is_sender=True).token
        return Channel(room, sender, {self.url: listeners}, TEXT, "", in_flight=self.sizes.in_flight)

    def history(self, transport: str) -> Readers | None:
        """Its pages come over the stream, so there is one way."""
        if transport != "http":
            return None
        return Readers([self._reader(number) for number in range(self.sizes.readers)], "ws", items=PAGE)

    def _reader(self, number: int) -> Reader:
        numbers = range(self.sizes.messages + 1, PAGE, -PAGE)
        pages = [page(PAGE, self._mark(before), f"{WRITER}@{HOST}") for before in numbers]
        first = number * len(pages) // self.sizes.readers
        return Reader(self.token(f"reader{number}"), pages[first:] + pages[:first])

    def _mark(self, number: int) -> str:
        return str(self._since_us + number * _STEP_US)

    def inbox(self) -> Opens | None:
        total = self.sizes.inbox * self.sizes.unread
        most = min(PAGE_MOST, total)
        requests = [page(most, self._mark(before)) for before in range(total + 1, most, -most)]
        size_bytes = asyncio.run(self._size_bytes(requests))
        return Opens(Readers([Reader(self.token(OPENER), requests)], "ws", items=most), len(requests), size_bytes)

    async def _size_bytes(self, requests: list[str]) -> int:
        """All bytes of the answers of one open."""
        tally, heard = Tally(), asyncio.Queue[Answer]()
        link = await Xmpp().connect(self.url, self.token(OPENER), tally, heard.put_nowait)
        assert isinstance(link, XmppLink)
        before = link.received_bytes
        for request in requests:
            link.send(request.encode())
            await heard.get()
        size_bytes = link.received_bytes - before
        await link.leave()
        return size_bytes


def missing() -> str | None:
    try:
        binaries()
    except NotThere:
        return f"no PostgreSQL: {GET}"
    is_there = shutil.which("erl") and _SCHEMA.exists() and any(_LIBRARIES.glob("erlang/lib/p1_pgsql-*"))
    return None if is_there and folder_of_ejabberd() else f"not installed: {GET}"


def folder_of_ejabberd() -> Path | None:
    """The folder of libraries that has ejabberd's own."""
    return next((found.parent.parent for found in sorted(_LIBRARIES.glob("*/ejabberd-*/ebin"))), None)


def people(sizes: Sizes) -> dict[str, int]:
    """Each kind of user, and how many there are."""
    pairs, members = sizes.pairs, max(sizes.members)
    return {
        "sender": pairs,
        "recipient": pairs,
        "reader": sizes.readers,
        "member": members,
        "idle": sizes.connections,
    }


def seed(database: PostgresServer, sizes: Sizes, since_us: int) -> None:
    """Accounts, and the archives that are read. The unread messages are from all peers in turn."""
    database.run_file(_SCHEMA)
    for kind, count in people(sizes).items():
        made = f"SELECT '{kind}' || n, '{PASSWORD}' FROM generate_series(0, {count - 1}) n"
        database.ask(f"INSERT INTO users (username, password) {made}")
    database.ask(f"INSERT INTO users (username, password) VALUES ('{OPENER}', '{PASSWORD}')")
    fixed = {"since": since_us, "step": _STEP_US, "host": HOST, "text": TEXT}
    for number in range(sizes.readers):
        one = {"user": f"reader{number}", "peer": f"'{WRITER}@{HOST}'", "count": sizes.messages}
        database.ask(_ARCHIVED.format(**fixed, **one))
    peers = f"'group' || n % {sizes.inbox} || '@{HOST}'"
    database.ask(_ARCHIVED.format(**fixed, user=OPENER, peer=peers, count=sizes.inbox * sizes.unread))
    database.ask("ANALYZE")


@contextmanager
def start(data: Path, sizes: Sizes) -> Iterator[Server]:
    since_us = (Clock().now_ms() - 3_600_000) * 1_000
    port, sql_port = free_port(), free_port()
    database = PostgresServer({**_DATABASE, "port": str(sql_port)})
    try:
        seed(database, sizes, since_us)
        with _erlang(data, port, sql_port) as pid:
            parts = {"ejabberd": descendants(pid), "postgres": descendants(database.pid)}
            yield XmppServer(Target(f"tcp://127.0.0.1:{port}", Signed(SECRET), parts), sizes, since_us)
    finally:
        database.stop()


@contextmanager
def _erlang(data: Path, port: int, sql_port: int) -> Iterator[int]:
    """ejabberd without a node name, so that no other process of Erlang is needed."""
    settings, log = data / "ejabberd.yml", data / "ejabberd.log"
    settings.write_text(_SETTINGS.format(host=HOST, port=port, sql_port=sql_port))
    given = {
        "EJABBERD_CONFIG_PATH": str(settings),
        "EJABBERD_LOG_PATH": str(log),
        "ERL_LIBS": str(folder_of_ejabberd()),
        "ERL_CRASH_DUMP_SECONDS": "0",
        "HOME": str(data),
    }
    words = ["erl", "-noinput", *_ERLANG, "-mnesia", "dir", f'"{data / "mnesia"}"', "-s", "ejabberd"]
    with child(words, given, data / "erlang.log") as process:
        await_ready(process, lambda: _signs_in(port), data / "erlang.log")
        yield process.pid


def _signs_in(port: int) -> bool:
    """Whether a user can sign in: then its database answers too."""

    async def try_it() -> bool:
        try:
            async with asyncio.timeout(5):
                link = await Xmpp().connect(f"tcp://127.0.0.1:{port}", Who(OPENER).token, Tally(), lambda answer: None)
                await link.leave()
                return True
        except (OSError, RuntimeError, TimeoutError):
            return False

    return asyncio.run(try_it())


EJABBERD = Rival(
    "ejabberd",
    "ejabberd + PostgreSQL",
    "stores each message for both users or for the room (PostgreSQL, fsync) and counts nothing; "
    "its acknowledgement says that it handled the stanza, in 1:1 after the sender's copy was stored",
    start,
    missing,
)
