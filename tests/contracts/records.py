"""What every adapter of the Records port must do, alone and in the commit of a group."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.contracts import conversation, fresh, group, message
from tidings.errors import Conflict
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Put, Record, RecordKey, of_conversation, of_user, seq_name
from tidings.stores.tables.values import Known, Refused


class RecordsContract:
    async def test_a_record_is_read_back_with_its_version(self, tables: Tables) -> None:
        owner = of_user(fresh("alice"))
        await tables.records.put([Put(owner, "drafts", "c1", b'{"text":"a"}')])
        await tables.records.put([Put(owner, "drafts", "c1", b'{"text":"b"}', due_ms=7)])
        found = await tables.records.get(owner, "drafts", ["c1", "c2", "c1"])
        assert found == {"c1": Record(owner, "drafts", "c1", b'{"text":"b"}', 2, 7)}
        assert found["c1"].key == RecordKey(owner, "drafts", "c1")
        assert await tables.records.get(owner, "draft", ["c1"]) == {}

    async def test_records_of_several_owners_are_read_together(self, tables: Tables) -> None:
        alice, c = of_user(fresh("alice")), of_conversation(fresh("c"))
        await tables.records.put([Put(alice, "drafts", "c1", b"1"), Put(alice, "drafts", "c2", b"2")])
        await tables.records.put([Put(c, "rules", "rules", b"{}")])
        keys = [RecordKey(alice, "drafts", "c1"), RecordKey(alice, "drafts", "c3"), RecordKey(c, "rules", "rules")]
        found = await tables.records.get_each(keys)
        assert found == {keys[0]: Record(*keys[0], b"1", 1), keys[2]: Record(*keys[2], b"{}", 1)}
        assert await tables.records.get_each([]) == {}

    async def test_a_put_with_another_version_changes_nothing(self, tables: Tables) -> None:
        owner = of_user(fresh("alice"))
        await tables.records.put([Put(owner, "drafts", "c1", b"1", expected=0)])
        for expected in (0, 2):
            with pytest.raises(Conflict):
                await tables.records.put(
                    [Put(owner, "drafts", "c2", b"2"), Put(owner, "drafts", "c1", b"2", expected=expected)]
                )
        assert await tables.records.get(owner, "drafts", ["c1", "c2"]) == {"c1": Record(owner, "drafts", "c1", b"1", 1)}
        await tables.records.put([Put(owner, "drafts", "c1", b"2", expected=1)])
        assert (await tables.records.get(owner, "drafts", ["c1"]))["c1"].version == 2

    async def test_of_puts_at_once_that_saw_the_same_version_one_succeeds(self, tables: Tables) -> None:
        owner = of_user(fresh("alice"))
        for expected in (0, 1):
            puts = [Put(owner, "pins", "1", b"%d" % at, expected=expected) for at in range(5)]
            answers = await asyncio.gather(*(tables.records.put([put]) for put in puts), return_exceptions=True)
            assert [type(answer) for answer in answers].count(type(None)) == 1, answers
        assert (await tables.records.get(owner, "pins", ["1"]))["1"].version == 2

    async def test_a_record_is_removed_once_seen(self, tables: Tables) -> None:
        owner = of_user(fresh("alice"))
        await tables.records.put([Put(owner, "drafts", "c1", b"1")])
        with pytest.raises(Conflict):
            await tables.records.put([Put(owner, "drafts", "c1", None, expected=2)])
        await tables.records.put([Put(owner, "drafts", "c1", None, expected=1)])
        assert await tables.records.get(owner, "drafts", ["c1"]) == {}
        await tables.records.put([Put(owner, "drafts", "c1", None), Put(owner, "drafts", "c2", None, expected=0)])

    async def test_pages_go_by_name_in_both_directions(self, tables: Tables) -> None:
        owner = of_conversation(fresh("c"))
        names = [seq_name(seq_no) for seq_no in (1, 2, 9, 10, 11)]
        await tables.records.put([Put(owner, "pins", name, b"{}") for name in reversed(names)])
        await tables.records.put([Put(owner, "pin", "x", b"{}"), Put(owner, "pinz", "x", b"{}")])

        async def page(**bounds: Any) -> list[str]:
            return [record.name for record in await tables.records.page(owner, "pins", **bounds)]

        assert await page(limit=10) == names
        assert await page(limit=2, after=names[1]) == names[2:4]
        assert await page(limit=2, newest_first=True) == names[:2:-1]
        assert await page(limit=2, before=names[3], newest_first=True) == names[2:0:-1]
        assert await page(limit=9, after=names[0], before=names[2]) == names[1:2]
        assert await page(limit=9, after=names[2], before=names[2]) == []
        assert await page(limit=9, after=names[3], before=names[1]) == [], "bounds that cross have nothing between them"

    async def test_records_are_found_when_their_time_has_come(self, tables: Tables) -> None:
        collection = fresh("jobs")
        owners = [of_user(fresh("user")) for _ in range(12)]
        await tables.records.put([Put(owner, collection, "a", b"{}", due_ms=at) for at, owner in enumerate(owners)])
        await tables.records.put([Put(owners[0], collection, "never", b"{}")])
        found = await tables.records.due(collection, until_ms=5, limit=10)
        assert [(record.owner, record.due_ms) for record in found] == [(owners[at], at) for at in range(6)]
        assert len(await tables.records.due(collection, until_ms=99, limit=4)) == 4
        await tables.records.put([Put(owners[0], collection, "a", b"{}"), Put(owners[1], collection, "a", None)])
        found = await tables.records.due(collection, until_ms=5, limit=10)
        assert [record.due_ms for record in found] == [2, 3, 4, 5]

    async def test_puts_of_a_group_are_committed_with_its_entries(self, tables: Tables) -> None:
        c = await conversation(tables)
        owner = of_conversation(c)
        put = Put(owner, "pins", seq_name(1), b"{}", expected=0)
        assert await tables.log.append([msgspec.structs.replace(group(message(c, 1)), puts=(put,))]) == [None]
        assert (await tables.records.get(owner, "pins", [put.name]))[put.name].version == 1

    async def test_a_group_whose_record_has_another_version_is_stale_and_writes_nothing(self, tables: Tables) -> None:
        c = await conversation(tables)
        owner = of_conversation(c)
        await tables.records.put([Put(owner, "pins", "a", b"1")])
        stale = msgspec.structs.replace(group(message(c, 1)), puts=(Put(owner, "pins", "a", b"2", expected=0),))
        assert await tables.log.append([stale]) == [Refused({}, frozenset(), is_stale=True)]
        assert (await tables.records.get(owner, "pins", ["a"]))["a"].value == b"1"
        assert (await tables.log.top(c)).seq_no == 0

    async def test_a_group_that_is_known_puts_nothing(self, tables: Tables) -> None:
        c = await conversation(tables)
        owner = of_conversation(c)
        assert await tables.log.append([group(message(c, 1))]) == [None]
        again = msgspec.structs.replace(group(message(c, 1)), puts=(Put(owner, "pins", "a", b"2"),))
        assert await tables.log.append([again]) == [Refused({0: Known(1)}, frozenset())]
        assert await tables.records.get(owner, "pins", ["a"]) == {}

    async def test_records_of_a_conversation_go_with_it(self, tables: Tables) -> None:
        c = await conversation(tables)
        kept = of_user(c)
        await tables.records.put([Put(of_conversation(c), "pins", "a", b"{}"), Put(kept, "pins", "a", b"{}")])
        await tables.conversations.delete(c)
        assert await tables.records.get(of_conversation(c), "pins", ["a"]) == {}
        assert list(await tables.records.get(kept, "pins", ["a"])) == ["a"]
