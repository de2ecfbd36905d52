"""The contract of the archive on DynamoDB Local, and moves that are throttled or not answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.contracts import group, log, message
from tests.contracts.archives import REF, ArchivesContract, edited, rechecks_of, texts, to
from tests.support.servers.dynamodb_tables import Once, faults, never_try_again, store_of
from tidings.errors import Throttled
from tidings.model import Head
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.operations import Op
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import EVERY_SEGMENT
from tidings_proof.world.dynamodb import DynamoLocal


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


class TestArchives(ArchivesContract): ...


@pytest.mark.parametrize("kind", ["lost", "throttled", "conflict"])
async def test_a_move_in_trouble_is_done_once(tables: Tables, dynamodb: DynamoLocal, kind: str) -> None:
    id_ = await texts(tables, "one", "two")
    fence = await tables.archive.take_fence()
    fault = Once(kind, "TransactWriteItems")
    with faults(dynamodb, fault):
        assert await tables.archive.move(fence, id_, to(REF, *await log(tables, id_))) == {1, 2}
    assert fault.left == 0
    assert [row.s3_ref for row in await log(tables, id_)] == [REF, REF]


async def test_an_edit_notices_that_its_target_was_archived_after_it_looked(
    dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = await texts(dynamo, "old")
    (seen,) = await log(dynamo, id_)
    fence, transact = await dynamo.archive.take_fence(), store_of(dynamo).transact

    async def late(ops: Sequence[Op]) -> None:
        """Between the look and the commit of the edit."""
        monkeypatch.setattr(store_of(dynamo), "transact", transact)
        assert await dynamo.archive.move(fence, id_, to(REF, seen)) == {1}
        await transact(ops)

    monkeypatch.setattr(store_of(dynamo), "transact", late)
    assert await dynamo.log.append([edited(seen, 2)]) == [None]
    assert [(row.text, row.s3_ref) for row in await log(dynamo, id_)] == [("new", None), ("new", None)]
    assert [one.s3_ref for one in await rechecks_of(dynamo, id_)] == [REF]


@pytest.mark.parametrize("table", ["conversations", "sent", "messages", "members"])
async def test_a_deletion_that_was_interrupted_is_finished_when_nobody_is_at_it(
    dynamo: Tables, dynamodb: DynamoLocal, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    def throttled(action: str, payload: dict[str, Any]) -> str | None:
        names = payload.get("RequestItems", ()) if action == "BatchWriteItem" else ()
        return "throttled" if any(name.endswith(table) for name in names) else None

    id_ = await texts(dynamo, "one", "two")
    with monkeypatch.context() as hurried, faults(dynamodb, throttled), pytest.raises(Throttled):
        never_try_again(hurried)
        await dynamo.conversations.delete(id_)
    assert not await dynamo.archive.finish_deletion(id_)  # somebody may still be at it
    monkeypatch.setattr(bounds, "DELETING_S", -1)
    assert await dynamo.archive.finish_deletion(id_)
    assert await log(dynamo, id_) == [] and await dynamo.conversations.members(id_) == []
    assert await dynamo.inboxes.rows("alice", [id_]) == {}
    (asked,) = await rechecks_of(dynamo, id_)
    assert (asked.s3_ref, asked.why) == (EVERY_SEGMENT, "deleted")
    assert await dynamo.conversations.create(Head(conversation_id=id_, kind="group", created_ms=9), [], [])
    assert await dynamo.log.append([group(message(id_, 1, "one"))]) == [None]  # its dedupe rows are gone too
    assert await dynamo.archive.finish_deletion(id_) and len(await log(dynamo, id_)) == 1
