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
from tests.contracts.file_bytes import FileBytesContract
from tests.contracts.inboxes import InboxesContract
from tests.contracts.messages import HeadsContract, MessagesContract, ReadsContract, RewritesContract
from tests.contracts.people import PeopleContract
from tests.contracts.statuses import StatusesContract
from tidings.clock import Clock
from tidings.stores.blobs.ports import Blobs, FileBytes
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.sqlite.adapter import tables_on
from tidings_proof.simulation.blobs import SimBlobs, SimFiles
from tidings_proof.simulation.stores import IDENTITY, SimThreads, open_database


class DirectWire:
    """Nothing gets lost, and nothing takes time."""

    async def ask(self, carry_out: Callable[[str], Any]) -> Any:
        return carry_out("well")


@pytest.fixture
def threads() -> tuple[Any, Any]:
    tx, wire = open_database(random.Random(0), Clock().now_ms), cast(Any, DirectWire())
    return SimThreads(wire, tx, is_writer=False), SimThreads(wire, tx, is_writer=True)


@pytest.fixture
def tables(threads: tuple[Any, Any]) -> Tables:
    return tables_on(IDENTITY, *threads, Clock())


@pytest.fixture
def blobs() -> Blobs:
    return SimBlobs(cast(Any, DirectWire()), {}, {}, Clock())


@pytest.fixture
def files() -> FileBytes:
    return SimFiles(cast(Any, DirectWire()), {}, {}, Clock())


class TestMessages(MessagesContract): ...


class TestHeads(HeadsContract): ...


class TestRewrites(RewritesContract): ...


class TestReads(ReadsContract): ...


class TestConversations(ConversationsContract): ...


class TestPeople(PeopleContract): ...


class TestInboxes(InboxesContract): ...


class TestStatuses(StatusesContract): ...


class TestAccounts(AccountsContract): ...


class TestArchives(ArchivesContract): ...


class TestBlobs(BlobsContract): ...


class TestFileBytes(FileBytesContract): ...
