"""PostgreSQL behind pgbouncer in transaction mode: the contracts hold, though each statement may meet another server
connection.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.contracts.archives import ArchivesContract
from tests.contracts.conversations import ConversationsContract
from tests.contracts.messages import HeadsContract, MessagesContract, RewritesContract
from tests.contracts.records import RecordsContract
from tests.contracts.statuses import StatusesContract
from tests.support.servers.postgres_server import fresh_schema
from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.postgres import adapter
from tidings_proof.world.postgres import PostgresServer

pytestmark = pytest.mark.long  # the same contracts run against the server itself in every run
CONF = """[databases]
* = host={server} user=postgres
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
logfile = {folder}/log
pidfile = {folder}/pid
"""


@pytest.fixture(scope="module")
def pooler(postgres: PostgresServer) -> Iterator[Path]:
    """The folder of its socket. It has fewer connections to the server than a node has to it."""
    tool = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if tool is None:
        pytest.skip("pgbouncer is not installed")
    folder = Path(tempfile.mkdtemp(prefix="tidings-pgb-"))
    server = parse_qs(urlsplit(postgres.url("x")).query)["host"][0]
    (folder / "conf.ini").write_text(CONF.format(server=server, folder=folder))
    user = pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    process = subprocess.Popen([tool, "-q", str(folder / "conf.ini")], user=user, cwd=folder)
    try:
        asyncio.run(eventually(lambda: (folder / ".s.PGSQL.6432").exists() or process.poll() is not None))
        assert process.poll() is None, (folder / "log").read_text()
        yield folder
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def pooled_url(pooler: Path) -> str:
    """Debian's version keeps no prepared statements."""
    return f"postgresql://postgres@/postgres?host={pooler}&port=6432&schema={fresh_schema()}&prepared=off"


@pytest.fixture
async def tables(pooled_url: str) -> AsyncIterator[Tables]:
    tables = await adapter.open(pooled_url, NO_COUNTS, Clock())
    yield tables
    await tables.close()


class TestMessages(MessagesContract): ...


class TestHeads(HeadsContract): ...


class TestRewrites(RewritesContract): ...


class TestConversations(ConversationsContract): ...


class TestStatuses(StatusesContract): ...


class TestRecords(RecordsContract): ...


class TestArchives(ArchivesContract): ...


async def test_many_callers_share_few_connections(tables: Tables) -> None:
    await asyncio.gather(*(tables.ping() for _ in range(100)))
