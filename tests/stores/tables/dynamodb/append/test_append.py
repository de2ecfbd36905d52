"""Append in trouble: lost replies, throttling, crashes between commit and head, and groups too large for one commit."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.contracts import conversation, group, head_of, log, message, void
from tests.contracts.messages import edit
from tests.support.servers.dynamodb_tables import Counts, Once, faults, never_try_again, store_of
from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.errors import Throttled, Unavailable
from tidings.model import Head
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Group, Known, Refused
from tidings_proof.world.dynamodb import DynamoLocal


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    never_try_again(monkeypatch)


@pytest.mark.parametrize("kind", ["lost", "error", "throttled", "conflict"])
async def test_trouble_with_the_transaction_is_nobodys_business(
    dynamodb: DynamoLocal, dynamo: Tables, kind: str
) -> None:
    c = await conversation(dynamo, "alice")
    fault = Once(kind, "TransactWriteItems", times=2)
    with faults(dynamodb, fault):
        assert await dynamo.log.append([group(message(c, 1), message(c, 2))]) == [None]
    assert fault.left == 0
    assert [entry.seq_no for entry in await log(dynamo, c)] == [1, 2]
    assert (await head_of(dynamo, c)).head == 2


@pytest.mark.usefixtures("impatient")
async def test_throttled_to_the_end_nothing_was_written(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    with faults(dynamodb, Once("throttled", "TransactWriteItems", times=1000)), pytest.raises(Throttled):
        await dynamo.log.append([group(message(c, 1))])
    assert await log(dynamo, c) == []
    assert await dynamo.log.append([group(message(c, 1))]) == [None]


class OneConversation:
    """A fault for every transaction of one conversation."""

    def __init__(self, kind: str, conversation_id: str) -> None:
        self._kind, self._id = kind, conversation_id

    def __call__(self, action: str, payload: dict[str, Any]) -> str | None:
        is_hot = any(
            op.get("Put", {}).get("Item", {}).get("conversation_id", {}).get("S") == self._id
            for op in payload.get("TransactItems", ())
        )
        return self._kind if is_hot else None


@pytest.mark.parametrize(("kind", "error"), [("throttled", Throttled), ("lost", Unavailable)])
async def test_one_conversation_in_trouble_takes_no_verdict_from_the_others(
    dynamodb: DynamoLocal, dynamo: Tables, kind: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    never_try_again(monkeypatch)
    hot, quiet, other = [await conversation(dynamo, "alice") for _ in range(3)]
    with faults(dynamodb, OneConversation(kind, hot)):
        groups = [group(message(quiet, 1)), group(message(hot, 1)), group(message(hot, 2)), group(message(other, 1))]
        first, throttled, behind, last = await dynamo.log.append(groups)
    assert first is None and last is None
    assert isinstance(throttled, error) and isinstance(behind, Throttled)
    assert len(await log(dynamo, quiet)) == len(await log(dynamo, other)) == 1
    assert (await head_of(dynamo, quiet)).head == 1


async def test_a_throttled_conversation_is_tried_for_a_shorter_time_beside_others(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is not asked: with no patience for others, only a conversation alone is tried more than once."""
    monkeypatch.setattr(bounds, "THROTTLED_S", 0.0)
    monkeypatch.setattr(bounds, "DEADLINE_S", 60.0)
    hot, quiet = await conversation(dynamo, "alice"), await conversation(dynamo, "alice")
    with faults(dynamodb, OneConversation("throttled", hot)):
        verdict, throttled = await dynamo.log.append([group(message(quiet, 1)), group(message(hot, 1))])
    assert verdict is None and isinstance(throttled, Throttled)
    with faults(dynamodb, Once("throttled", "TransactWriteItems", times=3)):
        assert await dynamo.log.append([group(message(hot, 1))]) == [None]


@pytest.mark.usefixtures("impatient")
async def test_lost_to_the_end_is_ambiguous_and_known_when_asked_again(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    with faults(dynamodb, Once("lost", "TransactWriteItems", times=1000)), pytest.raises(Unavailable) as said:
        await dynamo.log.append([group(message(c, 1))])
    assert said.value.is_ambiguous
    assert await dynamo.log.append([group(message(c, 1))]) == [Refused({0: Known(1)}, frozenset())]
    assert (await head_of(dynamo, c)).head == 1  # raised before `known` was answered


@pytest.mark.usefixtures("impatient")
async def test_a_head_that_cannot_be_raised_is_no_acknowledgement(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    with faults(dynamodb, Once("throttled", "UpdateItem", times=1000)), pytest.raises(Unavailable) as said:
        await dynamo.log.append([group(message(c, 1, "one"), void(c, 2))])
    assert said.value.is_ambiguous
    assert (await head_of(dynamo, c)).head == 0 and len(await log(dynamo, c)) == 2
    [refused] = await dynamo.log.append([group(message(c, 7, "one", message_id="m1"))])  # a resend, numbered anew
    assert refused == Refused({0: Known(1)}, frozenset())
    head = await head_of(dynamo, c)
    assert (head.head, head.last_seq, head.preview) == (1, 1, "one")


@pytest.mark.usefixtures("impatient")
async def test_a_head_that_was_left_behind_catches_up(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    with faults(dynamodb, Once("throttled", "UpdateItem", times=1000)), pytest.raises(Unavailable):
        await dynamo.log.append([group(message(c, 1, "one"), message(c, 2, "two"))])
    assert (await head_of(dynamo, c)).head == 0
    await dynamo.log.catch_up(c, await log(dynamo, c))
    head = await head_of(dynamo, c)
    assert (head.head, head.last_seq, head.preview) == (2, 2, "two")
    await dynamo.log.catch_up("c-nowhere", await log(dynamo, c))


async def test_what_is_written_to_a_conversation_while_it_is_deleted_goes_again(
    dynamodb: DynamoLocal, dynamo: Tables, counts: Counts, dynamo_prefix: str
) -> None:
    """The head goes between the commit and its raise: the row must not be there when it is created anew."""
    c = await conversation(dynamo, "alice")
    await dynamo.log.append([group(message(c, 1))])
    async with counts.opened(dynamodb.url(dynamo_prefix)) as other:
        loop = asyncio.get_running_loop()

        def delete_before_the_raise(action: str, payload: dict[str, Any]) -> str | None:
            if action == "UpdateItem" and "#head < :head" in payload.get("ConditionExpression", ""):
                dynamodb.shim.choose = None
                asyncio.run_coroutine_threadsafe(other.conversations.delete(c), loop)
                return "throttled"
            return None

        with faults(dynamodb, delete_before_the_raise):
            [refused] = await dynamo.log.append([group(message(c, 2), message(c, 3))])
            while await store_of(dynamo).get("conversation_heads", {"conversation_id": {"S": c}}):
                await asyncio.sleep(0.01)
    assert refused is None or (
        isinstance(refused, Refused) and refused.is_gone
    )  # the raise came first, or the deletion did
    assert await log(dynamo, c) == []
    await dynamo.conversations.create(Head(conversation_id=c, kind="group", created_ms=1), [], [])
    assert await dynamo.log.append([group(message(c, 1), message(c, 2))]) == [None]


async def test_many_edits_go_in_several_commits_and_all_arrive(dynamo: Tables) -> None:
    """45 edits are more than a transaction takes: each has an entry, a dedupe row, a target and an earlier text."""
    c = await conversation(dynamo, "alice")
    count = GROUP_ENTRIES_MAX
    await dynamo.log.append([group(*(message(c, seq_no, "old") for seq_no in range(1, count + 1)))])
    for round_ in (1, 2):
        targets = (await log(dynamo, c))[:count]
        edits = [edit(c, round_ * 100 + target.seq_no, target, f"text {round_}") for target in targets]
        assert await dynamo.log.append([_joined(edits, round_)]) == [None]
    entries = await log(dynamo, c)
    assert [entry.text for entry in entries[:count]] == ["text 2"] * count
    assert [entry.text for entry in entries[count : 2 * count]] == [None] * count
    assert (await head_of(dynamo, c)).preview == "text 2"


async def test_when_a_later_commit_is_refused_the_earlier_one_is_known(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    count = GROUP_ENTRIES_MAX
    targets = [message(c, seq_no, "old") for seq_no in range(1, count + 1)]
    await dynamo.log.append([group(*targets)])
    last = edit(c, 900, targets[-1], "overtaken")
    await dynamo.log.append([last])
    edits = [edit(c, 100 + target.seq_no, target, "new") for target in targets]
    [refused] = await dynamo.log.append([_joined(edits, 1)])
    assert isinstance(refused, Refused) and refused.is_stale and not refused.taken
    stored = [entry for entry in await log(dynamo, c) if 100 < entry.seq_no < 900]
    assert {known.seq_no for known in refused.known.values()} == {entry.seq_no for entry in stored}
    assert 0 < len(stored) < count


def _joined(edits: list[Group], round_: int) -> Group:
    """One group of them, each with an id."""
    entries = [one.entries[0] for one in edits]
    named = [msgspec.structs.replace(entry, message_id=f"e{round_}-{entry.seq_no}") for entry in entries]
    return group(*named, rewrites=tuple(one.rewrites[0] for one in edits))
