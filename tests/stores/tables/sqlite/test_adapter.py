"""The tables on SQLite as a whole: their file, their processes, their counts."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts import START_MS, conversation, group, head_of, log, message
from tests.stores.tables.sqlite.conftest import Counts
from tidings.errors import Unavailable
from tidings.model import Head
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.values import Refused


async def test_everything_is_there_after_it_was_closed_and_opened_again(path: Path, counts: Counts) -> None:
    first = await counts.open(path)
    c = await conversation(first, "alice")
    await first.log.append([group(message(c, 1))])
    epoch = await first.accounts.store_epoch()
    await first.close()
    second = await counts.open(path)
    assert await log(second, c) == [message(c, 1)]
    assert await second.accounts.store_epoch() == epoch
    await second.close()


async def test_close_commits_what_waits(path: Path, counts: Counts) -> None:
    tables = await counts.open(path)
    c = await conversation(tables, "alice")
    waiting = [asyncio.ensure_future(tables.log.append([group(message(c, seq_no))])) for seq_no in range(1, 51)]
    await asyncio.sleep(0)
    await tables.close()
    assert await asyncio.gather(*waiting) == [[None]] * 50
    again = await counts.open(path)
    assert len(await log(again, c)) == 50
    await again.close()


async def test_a_closed_store_is_unavailable(path: Path, counts: Counts) -> None:
    tables = await counts.open(path)
    await tables.close()
    await tables.close()
    with pytest.raises(Unavailable):
        await tables.ping()
    with pytest.raises(Unavailable):
        await tables.conversations.heads(["c"])


async def test_all_files_are_for_their_owner_only(path: Path, tables: Tables) -> None:
    await conversation(tables, "alice")
    names = sorted(file.name for file in path.parent.iterdir())
    of_each = [f"tidings.db{file}{part}" for file in ("", "-search") for part in ("", "-shm", "-wal")]
    assert names == sorted(of_each)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


async def test_a_row_is_counted_under_the_name_of_its_table(tables: Tables, counts: Counts) -> None:
    c = await conversation(tables, "alice", "bob")
    assert counts.writes == {"conversation_heads": 1, "members": 2, "conversations": 2}
    counts.writes.clear()
    await tables.log.append([group(message(c, 1), message(c, 2))])
    assert counts.writes == {"messages": 2, "conversation_heads": 1}
    await log(tables, c)
    assert counts.reads["messages"] == 2


async def test_an_inbox_page_reads_exactly_its_rows(tables: Tables, counts: Counts) -> None:
    cs = [await conversation(tables, "alice") for _ in range(200)]
    counts.reads.clear()
    await tables.inboxes.rows("alice", cs[50:70])
    assert counts.reads == {"conversations": 20}


async def test_a_refused_append_is_not_counted_as_a_write(tables: Tables, counts: Counts) -> None:
    c = await conversation(tables, "alice")
    await tables.log.append([group(message(c, 1))])
    counts.writes.clear()
    await tables.log.append([group(message(c, 2, message_id="new"), message(c, 3, message_id="m1"))])
    assert counts.writes == {}


async def test_a_long_log_is_deleted_in_several_commits(
    tables: Tables, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DELETE_CHUNK", 10)
    c = await conversation(tables, "alice")
    await tables.log.append([group(*(message(c, seq_no) for seq_no in range(1, 36)))])
    counts.writes.clear()
    await tables.conversations.delete(c)
    assert counts.writes["messages"] == 35
    assert await log(tables, c) == [] and await tables.conversations.heads([c]) == {}


async def test_what_waits_together_is_committed_together(tables: Tables, path: Path) -> None:
    """A commit appends at least one frame to the log file; fifty appends in one commit share their pages."""
    c = await conversation(tables, "alice")
    wal = path.with_name("tidings.db-wal")

    async def growth(first: int, together: bool) -> int:
        before = wal.stat().st_size
        calls = [tables.log.append([group(message(c, seq_no))]) for seq_no in range(first, first + 50)]
        if together:
            await asyncio.gather(*calls)
        else:
            for call in calls:
                await call
        return wal.stat().st_size - before

    assert await growth(1, together=True) * 5 < await growth(51, together=False)


async def test_a_waiter_that_is_cancelled_leaves_the_others_alone(tables: Tables) -> None:
    c = await conversation(tables, "alice")
    calls = [asyncio.ensure_future(tables.log.append([group(message(c, seq_no))])) for seq_no in range(1, 11)]
    await asyncio.sleep(0)
    calls[3].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answer for number, answer in enumerate(answers) if number != 3] == [[None]] * 9
    await tables.ping()


async def test_two_stores_on_one_file_see_each_other_and_share_the_slots(path: Path, counts: Counts) -> None:
    one, other = await counts.open(path), await counts.open(path)
    c = await conversation(one, "alice")
    assert (await head_of(other, c)).head == 0
    rivals = [(store, seq_no) for seq_no in range(1, 101) for store in (one, other)]
    verdicts = await asyncio.gather(
        *(
            store.log.append([group(message(c, seq_no, message_id=f"{number}"))])
            for number, (store, seq_no) in enumerate(rivals)
        )
    )
    assert sum(verdict == [None] for verdict in verdicts) == 100
    assert sum(isinstance(verdict[0], Refused) for verdict in verdicts) == 100
    assert await log(one, c) == await log(other, c)
    await one.close()
    await other.close()


_SENDER = f"""
import asyncio, sys
from tidings.clock import Clock
from tidings.model import Content, Entry
from tidings.stores.tables.ports import NO_COUNTS
from tidings.stores.tables.sqlite import adapter
from tidings.stores.tables.values import Group

async def send(tables, name, start, step):
    seq_no = start
    while True:
        entry = Entry(conversation_id="c", seq_no=seq_no, kind="message", sent_ms={START_MS} + seq_no,
                      message_id=f"{{name}}-{{seq_no}}", sender_id=name,
                      content=Content(f"text of {{name}} {{seq_no}}"))
        [verdict] = await tables.log.append([Group(conversation_id="c", entries=(entry,))])
        assert verdict is None, verdict
        sys.stdout.write(f"{{seq_no}}\\n")
        sys.stdout.flush()
        seq_no += step

async def main(path, name, start, step):
    tables = await adapter.open("sqlite://" + path, NO_COUNTS, Clock())
    await asyncio.gather(*(send(tables, name, start + 8 * lane, step) for lane in range(4)))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


def _start_sender(path: Path, name: str, start: int, step: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _SENDER, str(path), name, str(start), str(step)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _acknowledged(sender: subprocess.Popen[str], count: int) -> set[int]:
    """Reads `count` acknowledged numbers, kills the sender in the middle of the next ones, reads what came still."""
    assert sender.stdout is not None
    seen = [sender.stdout.readline() for _ in range(count)]
    sender.send_signal(signal.SIGKILL)
    seen += sender.stdout.read().splitlines(keepends=True)
    sender.wait()
    sender.stdout.close()
    return {int(line) for line in seen if line.endswith("\n")}


async def test_kill_9_in_the_middle_of_commits_loses_nothing_acknowledged(path: Path, counts: Counts) -> None:
    tables = await counts.open(path)
    await tables.conversations.create(Head(conversation_id="c", kind="group", created_ms=START_MS), [], [])
    await tables.close()
    acknowledged: set[int] = set()
    for run in range(3):
        # Each lane of a run numbers its own slots: lane * 8 + run * 2 + 1, and 32 further each time.
        acknowledged |= await asyncio.to_thread(_acknowledged, _start_sender(path, f"run{run}", run * 2 + 1, 32), 60)
    again = await counts.open(path)
    entries = await log(again, "c")
    assert len(acknowledged) >= 180
    assert acknowledged <= {entry.seq_no for entry in entries}
    assert (await head_of(again, "c")).head == entries[-1].seq_no
    assert await again.log.append([group(message("c", 100_000))]) == [None]
    await again.close()


async def test_two_processes_write_one_file_and_one_may_be_killed(path: Path, counts: Counts) -> None:
    tables = await counts.open(path)
    await tables.conversations.create(Head(conversation_id="c", kind="group", created_ms=START_MS), [], [])
    senders = [_start_sender(path, "odd", 1, 32), _start_sender(path, "even", 2, 32)]
    first = await asyncio.to_thread(_acknowledged, senders[0], 100)
    second = await asyncio.to_thread(_acknowledged, senders[1], 100)
    entries = await log(tables, "c")
    assert first and second and not first & second
    assert first | second <= {entry.seq_no for entry in entries}
    await tables.close()


async def test_many_who_open_a_new_file_at_once_agree_on_it(path: Path, counts: Counts) -> None:
    stores = await asyncio.gather(*(counts.open(path) for _ in range(6)))
    assert len({await store.accounts.store_epoch() for store in stores}) == 1
    c = await conversation(stores[0], "alice")
    for store in stores:
        assert await store.conversations.heads([c])
        await store.close()
