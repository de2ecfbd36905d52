"""The simulation's tables and blobs are held to the same suites as the real ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.contracts.accounts import AccountsContract
from tests.contracts.archives import ArchivesContract
from tests.contracts.blobs import BlobsContract
from tests.contracts.conversations import ConversationsContract
from tests.contracts.inboxes import InboxesContract
from tests.contracts.messages import HeadsContract, MessagesContract, ReadsContract, RewritesContract
from tests.contracts.statuses import StatusesContract
from tests.simulation.stores import SimBlobs, SimThreads, open_database
from tidings.clock import Clock
from tidings.stores.ports_archive import ArchiveTables, Blobs
from tidings.stores.sqlite_archive import SqliteArchive
from tidings.stores.tables_sqlite import SqliteTables


class DirectWire:
    """Nothing gets lost, and nothing takes time."""

    async def ask(self, carry_out: Callable[[str], Any]) -> Any:
        return carry_out("well")


@pytest.fixture
def threads() -> tuple[Any, Any]:
    hop, wire = open_database(random.Random(0), Clock().now_ms), cast(Any, DirectWire())
    return SimThreads(wire, hop, is_writer=False), SimThreads(wire, hop, is_writer=True)


@pytest.fixture
def tables(threads: tuple[Any, Any]) -> SqliteTables:
    return SqliteTables("the-store", reads=threads[0], writes=threads[1])


@pytest.fixture
def archive(threads: tuple[Any, Any]) -> ArchiveTables:
    return SqliteArchive("a1", *threads)


@pytest.fixture
def blobs() -> Blobs:
    return SimBlobs(cast(Any, DirectWire()), {}, {}, Clock())


class TestMessages(MessagesContract): ...


class TestHeads(HeadsContract): ...


class TestRewrites(RewritesContract): ...


class TestReads(ReadsContract): ...


class TestConversations(ConversationsContract): ...


class TestInboxes(InboxesContract): ...


class TestStatuses(StatusesContract): ...


class TestAccounts(AccountsContract): ...


class TestArchives(ArchivesContract): ...


class TestBlobs(BlobsContract): ...
