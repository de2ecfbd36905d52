"""What every adapter of the Pending port must do. The fixture `pending` is the adapter, `tables` is beside it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contracts import START_MS, conversation, fresh, group, message
from tidings.model import Member
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Waiting

FAR = START_MS // 1000 + 86_400


def waiting(user_id: str, conversation_id: str, first_seq: int, last_seq: int, **fields: Any) -> Waiting:
    values: dict[str, Any] = {"since_ms": START_MS, "expires": FAR}
    return Waiting(
        user_id=user_id, conversation_id=conversation_id, first_seq=first_seq, last_seq=last_seq, **(values | fields)
    )


class PendingContract:
    async def test_a_row_is_read_back_by_user_and_by_conversation(self, tables: Tables) -> None:
        bob, carol, first, second = fresh("bob"), fresh("carol"), fresh("c"), fresh("c")
        rows = [waiting(bob, first, 3, 7), waiting(bob, second, 1, 1), waiting(carol, first, 2, 7)]
        await tables.pending.put(rows)
        assert sorted(await tables.pending.of_user(bob), key=lambda row: row.conversation_id) == rows[:2]
        assert await tables.pending.of_conversation(first, iter([carol, bob, fresh("user")])) == {
            bob: rows[0],
            carol: rows[2],
        }
        assert (
            await tables.pending.of_conversation(second, [carol])
            == {}
            == await tables.pending.of_conversation(second, [])
        )
        assert await tables.pending.of_user(fresh("user")) == []

    async def test_a_later_put_moves_the_end_and_keeps_the_beginning(self, tables: Tables) -> None:
        bob, c = fresh("bob"), fresh("c")
        await tables.pending.put([waiting(bob, c, 3, 7)])
        await tables.pending.put([waiting(bob, c, 5, 9, since_ms=START_MS + 5, expires=FAR + 5)])
        await tables.pending.put([waiting(bob, c, 1, 8)])
        assert await tables.pending.of_user(bob) == [waiting(bob, c, 3, 9, expires=FAR + 5)]

    async def test_a_later_put_with_the_same_beginning_keeps_its_time(self, tables: Tables) -> None:
        bob, c = fresh("bob"), fresh("c")
        await tables.pending.put([waiting(bob, c, 3, 7)])
        await tables.pending.put([waiting(bob, c, 3, 9, since_ms=START_MS + 5, expires=FAR + 5)])
        assert await tables.pending.of_user(bob) == [waiting(bob, c, 3, 9, expires=FAR + 5)]

    async def test_a_receipt_clears_the_row_or_its_beginning(self, tables: Tables) -> None:
        bob, c, other = fresh("bob"), fresh("c"), fresh("c")
        await tables.pending.put([waiting(bob, c, 3, 7), waiting(bob, other, 3, 7)])
        await tables.pending.clear([(c, bob, 2)])
        assert (await tables.pending.of_conversation(c, [bob]))[bob] == waiting(bob, c, 3, 7)
        await tables.pending.clear([(c, bob, 5)])
        assert (await tables.pending.of_conversation(c, [bob]))[bob] == waiting(bob, c, 6, 7)
        await tables.pending.clear([(c, bob, 7), (other, bob, 100)])
        assert await tables.pending.of_user(bob) == []

    async def test_a_receipt_without_a_row_is_no_mistake(self, tables: Tables) -> None:
        bob, carol, c = fresh("bob"), fresh("carol"), fresh("c")
        await tables.pending.put([waiting(carol, c, 1, 9)])
        await tables.pending.clear([])
        await tables.pending.clear([(c, bob, 5), (fresh("c"), carol, 5)])
        assert await tables.pending.of_user(carol) == [waiting(carol, c, 1, 9)]

    async def test_a_put_after_the_receipt_begins_anew(self, tables: Tables) -> None:
        bob, c = fresh("bob"), fresh("c")
        await tables.pending.put([waiting(bob, c, 1, 4)])
        await tables.pending.clear([(c, bob, 4)])
        await tables.pending.put([waiting(bob, c, 5, 6)])
        assert await tables.pending.of_user(bob) == [waiting(bob, c, 5, 6)]

    async def test_many_rows_at_once_are_all_there(self, tables: Tables) -> None:
        c, users = fresh("c"), [fresh("user") for _ in range(300)]
        await asyncio.gather(*(tables.pending.put([waiting(id_, c, 1, 2) for id_ in users]) for _ in range(3)))
        assert len(await tables.pending.of_conversation(c, users)) == 300
        await tables.pending.clear([(c, id_, 2) for id_ in users[:299]])
        assert list(await tables.pending.of_conversation(c, users)) == users[299:]

    async def test_what_is_over_goes_and_what_is_not_stays(self, tables: Tables) -> None:
        c = await conversation(tables, "bob", "carol")
        await tables.pending.put([waiting("bob", c, 1, 2, expires=FAR), waiting("carol", c, 1, 2, expires=FAR + 1)])
        assert await tables.pending.expire((FAR - 1) * 1000) == 0
        assert await tables.pending.expire(FAR * 1000) == 1
        assert list(await tables.pending.of_conversation(c, ["bob", "carol"])) == ["carol"]

    async def test_what_waits_for_nobody_goes_too(self, tables: Tables) -> None:
        c, gone = await conversation(tables, "bob", "carol", "dave"), await conversation(tables, "bob")
        await tables.log.append(
            [group(message(c, 1), members=(Member(conversation_id=c, user_id="dave", left_seq=1),))]
        )
        await tables.statuses.deliver([(c, "bob", 1)])
        rows = [waiting(user_id, c, 1, 1) for user_id in ("bob", "carol", "dave")]
        await tables.pending.put([*rows, waiting("bob", gone, 1, 1)])
        await tables.conversations.delete(gone)
        assert await tables.pending.expire(START_MS) == 3
        assert await tables.pending.of_conversation(c, ["bob", "carol", "dave"]) == {"carol": rows[1]}
