"""The contract suites on DynamoDB Local, in calm and in trouble, and what only this adapter promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contracts import conversation, group, head_of, log, message
from tests.contracts.accounts import AccountsContract
from tests.contracts.conversations import ConversationsContract
from tests.contracts.inboxes import InboxesContract
from tests.contracts.messages import HeadsContract, MessagesContract, ReadsContract, RewritesContract
from tests.contracts.statuses import StatusesContract
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.dynamodb_tables import Counts, faults
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Refused
from tidings_proof.world.dynamodb import DynamoLocal
from tidings_proof.world.dynamodb_shim import Faults


@pytest.fixture
async def tables(
    request: pytest.FixtureRequest, dynamodb: DynamoLocal, dynamo_prefix: str, counts: Counts
) -> AsyncIterator[Tables]:
    """With the chances of faults that the class of the test names."""
    chances: dict[str, float] = getattr(request.cls, "chances", {})
    async with counts.opened(dynamodb.url(dynamo_prefix)) as tables:
        with faults(dynamodb, Faults(seed=7, **chances)):
            yield tables


class TestMessages(MessagesContract): ...


class TestHeads(HeadsContract): ...


class TestRewrites(RewritesContract): ...


class TestReads(ReadsContract): ...


class TestConversations(ConversationsContract): ...


class TestInboxes(InboxesContract): ...


class TestStatuses(StatusesContract): ...


class TestAccounts(AccountsContract): ...


TROUBLE = {"throttled": 0.04, "throttling": 0.04, "unprocessed": 0.3, "conflict": 0.06, "lost": 0.06, "error": 0.03}


class Trouble:
    """About every fifth request goes wrong, each in its way: nobody may notice."""

    chances = TROUBLE


@pytest.mark.long
class TestMessagesInTrouble(Trouble, MessagesContract): ...


@pytest.mark.long
class TestHeadsInTrouble(Trouble, HeadsContract): ...


@pytest.mark.long
class TestRewritesInTrouble(Trouble, RewritesContract): ...


@pytest.mark.long
class TestConversationsInTrouble(Trouble, ConversationsContract): ...


@pytest.mark.long
class TestInboxesInTrouble(Trouble, InboxesContract): ...


@pytest.mark.long
class TestStatusesInTrouble(Trouble, StatusesContract): ...


class TestAccountsInTrouble(Trouble, AccountsContract): ...


async def test_two_nodes_share_the_slots(dynamodb: DynamoLocal, dynamo_prefix: str, counts: Counts) -> None:
    url = dynamodb.url(dynamo_prefix)
    async with counts.opened(url) as one, counts.opened(url) as other:
        c = await conversation(one, "alice")
        rivals = [(store, seq_no) for seq_no in range(1, 31) for store in (one, other)]
        verdicts = await asyncio.gather(
            *(
                store.log.append([group(message(c, seq_no, message_id=f"{number}"))])
                for number, (store, seq_no) in enumerate(rivals)
            )
        )
        assert sum(verdict == [None] for verdict in verdicts) == 30
        assert sum(isinstance(verdict[0], Refused) for verdict in verdicts) == 30
        assert await log(one, c) == await log(other, c)
        assert (await head_of(one, c)).head == 30


async def test_a_row_is_counted_under_the_name_of_its_table(dynamo: Tables, counts: Counts) -> None:
    c = await conversation(dynamo, "alice", "bob")
    counts.clear()
    await dynamo.log.append([group(message(c, 1), message(c, 2))])
    assert counts.writes == {"messages": 2, "sent": 2, "conversation_heads": 1}
    await log(dynamo, c)
    assert counts.reads["messages"] == 2


async def test_an_inbox_page_reads_exactly_its_rows(dynamo: Tables, counts: Counts) -> None:
    cs = [await conversation(dynamo, "pat") for _ in range(30)]
    counts.clear()
    await dynamo.inboxes.rows("pat", cs[5:25])
    assert counts.reads == {"conversations": 20}
    assert counts.units == {"read": 20, "write": 0}


async def test_a_message_is_one_transaction_of_two_rows_and_one_update(
    dynamodb: DynamoLocal, dynamo: Tables, counts: Counts
) -> None:
    """Five units: two per row of a transaction, one for the head. (DynamoDB Local miscounts transactions.)"""
    c = await conversation(dynamo, "alice", "bob")
    counts.clear()
    dynamodb.shim.asked.clear()
    assert await dynamo.log.append([group(message(c, 1, "x" * 64))]) == [None]
    assert dynamodb.shim.asked == {"TransactWriteItems": 1, "UpdateItem": 1}
    assert counts.writes == {"messages": 1, "sent": 1, "conversation_heads": 1}
    assert counts.units["write"] > 0 and counts.units["read"] == 0


async def test_a_refused_append_is_not_counted_as_a_write(dynamo: Tables, counts: Counts) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.log.append([group(message(c, 1))])
    counts.clear()
    await dynamo.log.append([group(message(c, 2, message_id="new"), message(c, 3, message_id="m1"))])
    assert not counts.writes


async def test_a_closed_store_is_unavailable(dynamodb: DynamoLocal, dynamo_prefix: str, counts: Counts) -> None:
    tables = await counts.open(dynamodb.url(dynamo_prefix))
    await tables.close()
    await tables.close()
    with pytest.raises(Unavailable):
        await tables.ping()
    with pytest.raises(Unavailable):
        await tables.conversations.heads(["c"])


async def test_tables_that_were_not_made_are_named_with_the_remedy(dynamodb: DynamoLocal, counts: Counts) -> None:
    with pytest.raises(Unavailable, match="tidings tables create"):
        await counts.open(dynamodb.url(fresh_prefix()))


async def test_two_prefixes_share_nothing(dynamodb: DynamoLocal, dynamo: Tables, counts: Counts) -> None:
    url = dynamodb.url(fresh_prefix())
    await dynamodb_adapter.create(url, Clock())
    async with counts.opened(url) as other:
        c = await conversation(dynamo, "alice")
        assert await other.conversations.heads([c]) == {}
        assert await other.accounts.store_epoch() != await dynamo.accounts.store_epoch()
