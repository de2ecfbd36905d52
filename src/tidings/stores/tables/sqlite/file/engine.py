"""Threads that run SQL, so that the event loop never does.

A task is one piece of work and the future of its caller. Tasks of one turn of the loop are handed over together, and a
thread that is free takes all that wait. The writer runs them in ONE transaction with ONE commit, a reader in one
snapshot, and the loop is woken once for all answers. The callers (lanes, sockets, rebuilds) bound the queue.

Invariant: a caller gets its result only after the COMMIT that holds its work, and a task that fails does not fail
another. A task raises a store error only before its first write.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import apsw

from tidings.errors import StoreError, Unavailable
from tidings.stores.tables.ports import Counts
from tidings.stores.tables.sqlite.file import bounds
from tidings.tasks import wait_at_most

T = TypeVar("T")
log = logging.getLogger("tidings.tables")
_UPKEEP_AGAIN_S = 1.0  # after an upkeep that failed

BeginWriting = Callable[[apsw.Connection], object]


def _begin_writing(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")


class Transaction:
    """The open transaction of a thread. It counts the rows that it reads and writes."""

    __slots__ = ("begin_writing", "connection", "execute", "has_erased", "reads", "writes")

    def __init__(self, connection: apsw.Connection, begin_writing: BeginWriting = _begin_writing) -> None:
        self.connection = connection
        self.execute = connection.cursor().execute  # one cursor: the next statement ends the one before
        self.reads: dict[str, int] = {}
        self.writes: dict[str, int] = {}
        self.begin_writing = partial(begin_writing, connection)
        self.has_erased = False  # a text was removed that the log of the file may still hold

    def rows(self, table: str, sql: str, bindings: Sequence[Any]) -> list[Any]:
        found = self.execute(sql, bindings).fetchall()
        self.reads[table] = self.reads.get(table, 0) + len(found)
        return found

    def write(self, table: str, sql: str, bindings: Sequence[Any]) -> int:
        """Run a statement that writes. Returns how many rows it changed."""
        self.execute(sql, bindings)
        changed = self.connection.changes()
        self.writes[table] = self.writes.get(table, 0) + changed
        return changed

    def changed(self, table: str, sql: str, bindings: Sequence[Any]) -> list[Any]:
        """Write, and answer the RETURNING values of the changed rows."""
        found = self.execute(sql, bindings).fetchall()
        self.writes[table] = self.writes.get(table, 0) + len(found)
        return found

    def take_tally(self) -> tuple[dict[str, int], dict[str, int]]:
        tally = self.reads, self.writes
        self.reads, self.writes = {}, {}
        return tally


Work = Callable[[Transaction], T]


class Task(Generic[T]):
    """A piece of work, and the future of its caller."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Work[T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.result: T | None = None
        self.error: Exception | None = None

    def settle(self) -> None:
        if self.future.done():  # the caller was cancelled; the work has happened all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # T may itself be Optional


Tasks = Sequence[Task[Any]]
Upkeep = Callable[[Transaction, bool], float | None]  # is_last -> seconds until the next call


class Threads:
    """One thread per connection. `carry` runs the tasks of a thread in the database.

    `upkeep` runs between two transactions, after the callers have their answers. It answers the seconds until it wants
    to run again (None: after the next transaction). At the end it runs once more with `is_last`.
    """

    def __init__(
        self,
        name: str,
        connections: Sequence[apsw.Connection],
        carry: Callable[[Transaction, Tasks], None],
        counts: Counts,
        upkeep: Upkeep | None = None,
        begin_writing: BeginWriting = _begin_writing,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._carry = carry
        self._counts = counts
        self._upkeep = upkeep
        self._gathering: list[Task[Any]] = []
        self._under_way = 0  # tasks that are not settled
        self._quiet = asyncio.Event()  # set when some are, or by the timer of one who waited long enough
        self._queue: SimpleQueue[list[Task[Any]] | None] = SimpleQueue()
        self._is_closed = False
        self._ended = asyncio.Event()
        self._alive = len(connections)
        for number, connection in enumerate(connections):
            threading.Thread(
                target=self._live, args=(Transaction(connection, begin_writing),), name=f"{name}-{number}", daemon=True
            ).start()

    async def run(self, work: Work[T]) -> T:
        if self._is_closed:
            raise Unavailable("the tables are closed", store="tables", op=_name_of(work))
        future: asyncio.Future[T] = self._loop.create_future()
        task = Task(work, future)
        self._under_way += 1
        if not self._gathering:
            self._loop.call_soon(self._hand_over)
        self._gathering.append(task)
        try:
            return await future
        except StoreError as error:
            error.locate("tables", _name_of(work))
            raise

    async def quiet(self) -> None:
        """Return in a later turn of the loop: when some of the tasks under way are settled, or after QUIET_S.

        Work that keeps the loop busy waits here between two parts. A thread asks for the interpreter at each of its
        statements, and beside a busy loop it waits for it each time.
        """
        await asyncio.sleep(0)
        if self._under_way:
            self._quiet.clear()  # those whom it has woken go on all the same
            await wait_at_most(self._quiet, bounds.QUIET_S)

    async def close(self) -> None:
        """Finish the waiting tasks, then end the threads and their connections."""
        if not self._is_closed:
            self._is_closed = True
            self._hand_over()
            for _ in range(self._alive):
                self._queue.put(None)
        await self._ended.wait()

    def _hand_over(self) -> None:
        if self._gathering:
            self._queue.put(self._gathering)
            self._gathering = []

    def _live(self, tx: Transaction) -> None:
        """The thread. Whatever ends it, `close` does not wait for it any longer."""
        try:
            self._carry_out(tx)
            self._keep_up(tx, True)
            tx.connection.close()
        finally:
            self._tell(self._end_one)

    def _carry_out(self, tx: Transaction) -> None:
        """Carry the tasks out. One None in the queue ends one thread, after what was put before it."""
        tasks = self._next(tx)
        while tasks is not None:
            is_last = self._take_waiting(tasks)
            try:
                self._carry(tx, tasks)
            except Exception as error:  # our mistake, but nobody may wait for ever
                _fail(tx, tasks, Unavailable(repr(error), is_ambiguous=True))
            if not self._tell(self._settle, tasks, *tx.take_tally()):
                break
            tasks = None if is_last else self._next(tx)

    def _keep_up(self, tx: Transaction, is_last: bool) -> float | None:
        """Run the upkeep. A failure of it ends no thread: tasks would wait for an answer for ever."""
        try:
            return self._upkeep(tx, is_last) if self._upkeep is not None else None
        except Exception as error:
            log.warning("upkeep failed", extra={"store": "tables", "op": "upkeep", "cause": repr(error)})
            return _UPKEEP_AGAIN_S

    def _next(self, tx: Transaction) -> list[Task[Any]] | None:
        while True:
            rest_s = self._keep_up(tx, False)
            try:
                return self._queue.get(timeout=rest_s)
            except Empty:
                continue

    def _take_waiting(self, tasks: list[Task[Any]]) -> bool:
        """Add all tasks that wait by now. True: the end was among them."""
        try:
            while (more := self._queue.get_nowait()) is not None:
                tasks += more
        except Empty:
            return False
        return True

    def _tell(self, callback: Callable[..., None], *args: Any) -> bool:
        """False when the loop is gone: then nobody is left to answer, and the thread ends."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return False
        return True

    def _settle(self, tasks: Tasks, reads: dict[str, int], writes: dict[str, int]) -> None:
        for table, rows in reads.items():
            self._counts.read(table, rows)
        for table, rows in writes.items():
            self._counts.write(table, rows)
        for task in tasks:
            task.settle()
        self._under_way -= len(tasks)
        self._quiet.set()

    def _end_one(self) -> None:
        self._alive -= 1
        if not self._alive:
            self._ended.set()


class Port:
    """One port of the adapter: reads run on the reader threads, writes on the writer."""

    def __init__(self, reads: Threads, writes: Threads) -> None:
        self._read = reads.run
        self._write = writes.run


def read_together(tx: Transaction, tasks: Tasks) -> None:
    """Run all tasks on one snapshot, taken after the last of them was asked for."""
    try:
        with _transaction(tx, partial(tx.execute, "BEGIN")):
            for task in tasks:
                try:
                    task.result = task.work(tx)
                except Exception as error:
                    task.error = _as_store_error(error)
    except Unavailable as error:
        _fail(tx, tasks, error)


def write_together(tx: Transaction, tasks: Tasks) -> None:
    """Run all tasks in one commit. When one fails, all are undone and done again, each behind a savepoint."""
    try:
        try:
            with _transaction(tx, tx.begin_writing):
                for task in tasks:
                    _attempt(tx, task)
        except _Undone:
            tx.take_tally()
            _write_apart(tx, tasks)
    except Unavailable as error:
        _fail(tx, tasks, error)


class _Undone(Exception):
    """A task failed in the middle of its writes; the transaction was rolled back."""


def _attempt(tx: Transaction, task: Task[Any]) -> None:
    try:
        task.result = task.work(tx)
    except StoreError as verdict:
        task.error = verdict
    except Exception as error:
        raise _Undone from error


def _write_apart(tx: Transaction, tasks: Tasks) -> None:
    with _transaction(tx, tx.begin_writing):
        for task in tasks:
            task.result = task.error = None
            tx.execute("SAVEPOINT task")
            try:
                _attempt(tx, task)
            except _Undone as undone:
                assert isinstance(undone.__cause__, Exception)
                task.error = _as_store_error(undone.__cause__)
                if not tx.connection.in_transaction:  # SQLite gave the whole transaction up: the disk, not the task
                    raise Unavailable(str(undone.__cause__)) from undone
                tx.execute("ROLLBACK TO task")
            tx.execute("RELEASE task")


@contextmanager
def _transaction(tx: Transaction, begin: Callable[[], object]) -> Iterator[None]:
    """Commits what is done inside. SQLite's own errors come out as Unavailable, with everything rolled back."""
    try:
        begin()
        yield
    except BaseException as error:
        _roll_back(tx)
        if isinstance(error, apsw.Error):
            raise _as_store_error(error) from error
        raise
    try:
        tx.execute("COMMIT")
    except apsw.Error as error:
        _roll_back(tx)
        raise Unavailable(str(error), is_ambiguous=_is_ambiguous(error)) from error


def _is_ambiguous(error: apsw.Error) -> bool:
    """Whether a failed COMMIT may have happened all the same. Without the lock nothing was written, and without room
    the commit mark was not written; but after a failed write or sync the mark may be on the disk, where a recovery
    would find it."""
    return not isinstance(error, apsw.BusyError | apsw.FullError)


def _roll_back(tx: Transaction) -> None:
    try:
        if tx.connection.in_transaction:
            tx.execute("ROLLBACK")
    except apsw.Error:
        return  # the transaction is over either way; the error that led here is the one to report


def _name_of(work: Work[Any]) -> str:
    """The operation that a store error names: the function, or the method whose lambda it is. Such as `append`."""
    name: str = getattr(getattr(work, "func", work), "__qualname__", "")
    return name.removesuffix(".<locals>.<lambda>").rpartition(".")[2].lstrip("_")


def _as_store_error(error: Exception) -> Exception:
    return Unavailable(str(error)) if isinstance(error, apsw.Error) else error


def _fail(tx: Transaction, tasks: Tasks, error: Unavailable) -> None:
    """Fail every task of the transaction: the result of one may rest on what was rolled back."""
    tx.take_tally()
    for task in tasks:
        task.error = Unavailable(str(error), is_ambiguous=error.is_ambiguous)
