"""The head goes up and never down, whoever was faster."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts import START_MS, conversation, fresh, head_of, message, void
from tests.support.servers.dynamodb_tables import Once, faults, store_of
from tidings.stores.tables.dynamodb.append.heads import Raised, raise_head, raised_by
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


def test_the_last_message_is_what_the_head_shows() -> None:
    entries = [message("c", 1, "one"), message("c", 2, "two\nlines"), void("c", 3)]
    assert raised_by(entries) == Raised(3, 2, START_MS + 2, "two lines", '{"sender_id":"alice"}')
    assert raised_by([void("c", 4)]) == Raised(4)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Raised(5, 5, 50, "five"), Raised(3, 3, 30, "three"), (5, 5, 50, "five")),
        (Raised(9), Raised(7, 7, 70, "seven"), (9, 7, 70, "seven")),  # overtaken by a void: the message still shows
        (Raised(7, 7, 70, "seven"), Raised(9, 6, 60, "six"), (9, 7, 70, "seven")),
        (Raised(2, 2, 20, "two"), Raised(2, 2, 20, "two"), (2, 2, 20, "two")),
    ],
)
async def test_number_and_last_message_each_go_up_only(
    dynamo: Tables, first: Raised, second: Raised, expected: tuple[int, int, int, str]
) -> None:
    for one, other in ((first, second), (second, first)):
        c = await conversation(dynamo)
        assert await raise_head(store_of(dynamo), c, one) and await raise_head(store_of(dynamo), c, other)
        head = await head_of(dynamo, c)
        assert (head.head, head.last_seq, head.last_ms, head.preview) == expected


async def test_of_many_at_once_the_highest_stays(dynamo: Tables) -> None:
    c = await conversation(dynamo)
    await asyncio.gather(*(raise_head(store_of(dynamo), c, Raised(n, n, n, f"text {n}")) for n in range(1, 21)))
    head = await head_of(dynamo, c)
    assert (head.head, head.last_seq, head.preview) == (20, 20, "text 20")


async def test_a_raise_whose_reply_was_lost_is_done(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo)
    with faults(dynamodb, Once("lost", "UpdateItem")):
        assert await raise_head(store_of(dynamo), c, Raised(1, 1, 1, "x"))
    assert (await head_of(dynamo, c)).head == 1


async def test_no_conversation_has_no_head_to_raise(dynamo: Tables) -> None:
    assert not await raise_head(store_of(dynamo), fresh("c"), Raised(1))
