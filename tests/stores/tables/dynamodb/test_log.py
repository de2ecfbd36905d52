"""Pages and numbers: how much a read costs, and cursors beyond every number."""

from __future__ import annotations

from tests.contracts import conversation, group, message
from tests.support.servers.dynamodb_tables import Counts
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


async def filled(dynamo: Tables, count: int) -> str:
    c = await conversation(dynamo, "alice", "bob")
    for first in range(1, count + 1, 45):
        numbers = range(first, min(first + 45, count + 1))
        await dynamo.log.append([group(*(message(c, seq_no, "x" * 100) for seq_no in numbers))])
    return c


async def test_a_page_is_one_request_for_its_rows(dynamodb: DynamoLocal, dynamo: Tables, counts: Counts) -> None:
    c = await filled(dynamo, 90)
    counts.clear()
    dynamodb.shim.asked.clear()
    page = await dynamo.log.page(c, after=0, before=60, limit=20, newest_first=True)
    assert [entry.seq_no for entry in page] == list(range(59, 39, -1))
    assert dynamodb.shim.asked == {"Query": 1} and counts.reads == {"messages": 20}
    assert counts.units["read"] <= 2  # 20 rows of 300 bytes: two times 4 KB


async def test_bounds_that_no_number_reaches_are_no_mistake(dynamo: Tables) -> None:
    c = await filled(dynamo, 3)
    assert len(await dynamo.log.page(c, after=-5, before=10**40, limit=10, newest_first=False)) == 3
    assert await dynamo.log.page(c, after=10**40, before=10**41, limit=10, newest_first=False) == []
    assert await dynamo.log.unread(c, "bob", after=10**40, limit=5) == []
    assert await dynamo.log.unread(c, "bob", after=-1, limit=0) == []


async def test_unread_reads_on_until_it_has_enough(dynamo: Tables) -> None:
    """Rows that do not count fill whole pages of the query."""
    c = await conversation(dynamo, "alice", "bob")
    theirs = [message(c, seq_no) for seq_no in range(1, 4)]
    own = [message(c, seq_no, sender_id="bob") for seq_no in range(4, 44)]
    await dynamo.log.append([group(*theirs, *own)])
    found = await dynamo.log.unread(c, "bob", after=0, limit=2)
    assert [seq_no for seq_no, _ in found] == [3, 2]


async def test_the_time_of_an_entry_is_found_in_few_requests(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await filled(dynamo, 90)
    wanted = message(c, 33).sent_ms
    dynamodb.shim.asked.clear()
    assert await dynamo.log.seq_at(c, wanted) == 33
    assert dynamodb.shim.asked["Query"] <= 9
