"""What every adapter of the Statuses port must do."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.contracts import conversation, fresh, group, message
from tidings.errors import Conflict
from tidings.model import Member, Ranges, Status
from tidings.stores.tables.ports import Tables


def status(conversation_id: str, user_id: str = "alice", **numbers: int) -> Status:
    return Status(conversation_id=conversation_id, user_id=user_id, **numbers)  # type: ignore[arg-type]


class StatusesContract:
    async def test_a_status_is_read_back_field_by_field(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        ranges: Ranges = tuple((start, start + 1) for start in range(10, 10 + 64 * 3, 3))
        put = Status(
            conversation_id=c,
            user_id="alice",
            delivered_seq=9,
            read_seq=8,
            cursor_seq=7,
            ranges=ranges,
            version=1,
            since_seq=2,
            delivered_ms=20_000,
            read_ms=30_000,
            read_before=((3, 10_000), (5, 20_000)),
        )
        assert await tables.statuses.put(put) == put
        assert await tables.statuses.get("alice", [c]) == {c: put}
        assert await tables.statuses.of_conversation(c) == [put]

    async def test_get_answers_exactly_those_named(self, tables: Tables) -> None:
        first, second, third = [await conversation(tables, "alice", "bob") for _ in range(3)]
        for c in (first, second, third):
            await tables.statuses.put(status(c, version=1))
        await tables.statuses.put(status(first, "bob", version=1, cursor_seq=5))
        assert set(await tables.statuses.get("alice", iter([first, fresh("c"), third, first]))) == {first, third}
        assert await tables.statuses.get("bob", [first, second]) == {
            first: status(first, "bob", version=1, cursor_seq=5)
        }
        assert await tables.statuses.get("alice", []) == {}

    async def test_of_conversation_answers_everyone_by_user_id(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        for user_id in ("bob", "alice"):
            await tables.statuses.put(status(c, user_id, version=1))
        assert [found.user_id for found in await tables.statuses.of_conversation(c)] == ["alice", "bob"]
        assert await tables.statuses.of_conversation(fresh("c")) == []

    async def test_of_members_answers_exactly_those_named_by_user_id(self, tables: Tables) -> None:
        c, other = [await conversation(tables, "alice", "bob", "carol", "dave") for _ in range(2)]
        for user_id in ("carol", "bob", "alice"):
            await tables.statuses.put(status(c, user_id, version=1))
        await tables.statuses.put(status(other, "dave", version=1))
        found = await tables.statuses.of_members(c, ["dave", "carol", "alice", "carol", "nobody"])
        assert found == [status(c, "alice", version=1), status(c, "carol", version=1)]
        assert await tables.statuses.of_members(c, []) == []

    async def test_statuses_of_many_members_are_put_together(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice", "bob", "carol"), await conversation(tables, "alice")
        await tables.statuses.put(status(other, version=1, cursor_seq=9))
        bob = await tables.statuses.put(status(c, "bob", version=1, cursor_seq=4))
        alice, refused, carol = await tables.statuses.put_each(
            [status(c, version=1, cursor_seq=3), status(c, "bob", version=1), status(c, "carol", version=1, read_seq=2)]
        )
        assert isinstance(refused, Conflict)
        assert await tables.statuses.of_members(c, ["carol", "alice", "bob"]) == [alice, bob, carol]
        assert await tables.statuses.put_each([]) == []

    async def test_a_status_made_from_another_version_is_a_conflict(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        for version in (0, 2):
            with pytest.raises(Conflict):
                await tables.statuses.put(status(c, version=version))
        stored = await tables.statuses.put(status(c, version=1, cursor_seq=3))
        for version in (1, 3):
            with pytest.raises(Conflict):
                await tables.statuses.put(status(c, version=version, cursor_seq=9))
        assert await tables.statuses.get("alice", [c]) == {c: stored}
        assert (await tables.statuses.put(status(c, version=2, cursor_seq=1))).cursor_seq == 1

    async def test_of_many_puts_of_one_version_one_wins(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        calls = [tables.statuses.put(status(c, version=1, cursor_seq=number)) for number in range(10)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        stored = [answer for answer in answers if isinstance(answer, Status)]
        assert len(stored) == 1 and sum(isinstance(answer, Conflict) for answer in answers) == 9
        assert await tables.statuses.get("alice", [c]) == {c: stored[0]}

    async def test_a_first_status_beside_a_first_receipt_is_no_conflict(self, tables: Tables) -> None:
        for _ in range(20):
            c = await conversation(tables, "alice")
            put = tables.statuses.put(status(c, version=1, cursor_seq=2))
            await asyncio.gather(put, tables.statuses.deliver([(c, "alice", 3)]))
            assert await tables.statuses.get("alice", [c]) == {c: status(c, version=1, cursor_seq=2, delivered_seq=3)}

    async def test_ticks_never_go_back_while_the_cursor_may(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.statuses.put(status(c, version=1, delivered_seq=9, read_seq=5, cursor_seq=5))
        answer = await tables.statuses.put(status(c, version=2, delivered_seq=4, read_seq=7, cursor_seq=2))
        assert answer == status(c, version=2, delivered_seq=9, read_seq=7, cursor_seq=2)
        assert await tables.statuses.get("alice", [c]) == {c: answer}
        answer = await tables.statuses.put(status(c, version=3, delivered_seq=10, read_seq=1, cursor_seq=8))
        assert answer == status(c, version=3, delivered_seq=10, read_seq=7, cursor_seq=8)

    async def test_deliver_goes_forward_only_and_leaves_the_rest(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        put = Status(
            conversation_id=c, user_id="alice", version=1, read_seq=2, cursor_seq=3, ranges=((5, 6),), since_seq=1
        )
        await tables.statuses.put(put)
        for delivered_seq, moved in ((8, {(c, "alice")}), (4, set()), (8, set())):
            assert await tables.statuses.deliver([(c, "alice", delivered_seq)]) == moved
        [found] = await tables.statuses.of_conversation(c)
        assert found == msgspec.structs.replace(put, delivered_seq=8)

    async def test_each_mark_keeps_the_time_at_which_it_came_to_where_it_is(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.statuses.deliver([(c, "alice", 4)], 100)
        await tables.statuses.deliver([(c, "alice", 4), (c, "alice", 3)], 200)
        assert await tables.statuses.of_conversation(c) == [status(c, delivered_seq=4, delivered_ms=100)]
        read = status(c, version=1, delivered_seq=4, read_seq=4, cursor_seq=4, delivered_ms=100, read_ms=300)
        read = msgspec.structs.replace(read, read_before=((2, 200),))
        assert await tables.statuses.put(read) == read
        await tables.statuses.deliver([(c, "alice", 9)], 400)
        behind = status(c, version=2, delivered_seq=6, read_seq=6, cursor_seq=6, delivered_ms=500, read_ms=500)
        behind = msgspec.structs.replace(behind, read_before=((2, 200), (4, 300)))
        stored = await tables.statuses.put(behind)
        assert stored == msgspec.structs.replace(behind, delivered_seq=9, delivered_ms=400)
        assert await tables.statuses.get("alice", [c]) == {c: stored}
        again = await tables.statuses.put(status(c, version=3, read_seq=6, cursor_seq=6, read_ms=900))
        assert again == msgspec.structs.replace(stored, version=3), "the first time at which it stood there stays"
        late = msgspec.structs.replace(again, version=4, delivered_ms=950, read_ms=950)
        assert await tables.statuses.put(late) == msgspec.structs.replace(again, version=4)
        assert await tables.statuses.get("alice", [c]) == {c: msgspec.structs.replace(again, version=4)}

    async def test_deliver_to_a_member_without_a_status_begins_one_at_version_zero(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        moved = await tables.statuses.deliver([(c, "alice", 3), (c, "bob", 4), (c, "alice", 2)])
        assert moved == {(c, "alice"), (c, "bob")}
        assert await tables.statuses.of_conversation(c) == [
            status(c, delivered_seq=3),
            status(c, "bob", delivered_seq=4),
        ]
        assert await tables.statuses.put(status(c, version=1)) == status(c, version=1, delivered_seq=3)

    async def test_deliver_makes_no_status_of_someone_who_is_no_member(self, tables: Tables) -> None:
        c, gone = await conversation(tables, "alice", "bob"), fresh("c")
        await tables.log.append([group(message(c, 1), members=(Member(conversation_id=c, user_id="bob", left_seq=1),))])
        moved = await tables.statuses.deliver([(c, "bob", 1), (c, "stranger", 1), (gone, "alice", 1), (c, "alice", 1)])
        assert moved == {(c, "alice")}
        assert await tables.statuses.of_conversation(c) == [status(c, delivered_seq=1)]
        assert await tables.statuses.of_conversation(gone) == []

    async def test_of_a_conversation_only_the_statuses_of_present_members_are_read(self, tables: Tables) -> None:
        """The status of a member who left stays for its version: a late change must not pass for a new one."""
        c = await conversation(tables, "alice", "bob")
        for user_id in ("alice", "bob"):
            await tables.statuses.put(status(c, user_id, version=1, cursor_seq=1, read_seq=1))
        await tables.log.append([group(message(c, 1), members=(Member(conversation_id=c, user_id="bob", left_seq=1),))])
        assert [found.user_id for found in await tables.statuses.of_conversation(c)] == ["alice"]
        assert (await tables.statuses.get("bob", [c]))[c].version == 1

    async def test_many_marks_at_once_each_reach_their_status(self, tables: Tables) -> None:
        user_ids = [f"user{number:03}" for number in range(150)]
        c = await conversation(tables, *user_ids)
        moved = await tables.statuses.deliver([(c, user_id, number) for number, user_id in enumerate(user_ids)])
        assert len(moved) >= 149  # one at zero may count as moved: its status is new
        assert [found.delivered_seq for found in await tables.statuses.of_conversation(c)] == list(range(150))
        assert await tables.statuses.deliver([]) == set()
