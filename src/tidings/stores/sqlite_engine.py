"""Threads that run SQL, so that the event loop never does.

An errand is one piece of work and the one who waits for it. Errands of one turn of the loop are handed over together,
and a thread that comes back takes all that wait: the writer runs them in ONE transaction with ONE commit, a reader in
one snapshot, and the loop is woken once for all answers. The callers (lanes, sockets, rebuilds) bound what waits.

Invariant: a waiter hears of success only after the COMMIT that holds its work, and one errand that fails takes nobody
else down. An errand raises a store error only before its first write. tables_sqlite.py runs everything through here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import apsw

from tidings.errors import StoreError, Unavailable

T = TypeVar("T")
Count = Callable[[str, int], None]  # table, rows


class Hop:
    """One connection under a thread's hands, with a tally of the rows it read and wrote."""

    __slots__ = ("connection", "execute", "reads", "writes")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute = connection.cursor().execute  # one cursor: the next statement ends the one before
        self.reads: dict[str, int] = {}
        self.writes: dict[str, int] = {}

    def rows(self, table: str, sql: str, bindings: Sequence[Any]) -> list[Any]:
        found = self.execute(sql, bindings).fetchall()
        self.reads[table] = self.reads.get(table, 0) + len(found)
        return found

    def write(self, table: str, sql: str, bindings: Sequence[Any]) -> int:
        """How many rows it changed."""
        self.execute(sql, bindings)
        changed = self.connection.changes()
        self.writes[table] = self.writes.get(table, 0) + changed
        return changed

    def changed(self, table: str, sql: str, bindings: Sequence[Any]) -> list[Any]:
        """What its RETURNING says of the rows it changed."""
        found = self.execute(sql, bindings).fetchall()
        self.writes[table] = self.writes.get(table, 0) + len(found)
        return found

    def take_tally(self) -> tuple[dict[str, int], dict[str, int]]:
        tally = self.reads, self.writes
        self.reads, self.writes = {}, {}
        return tally


Work = Callable[[Hop], T]


class Bulk:
    """One statement over many rows: `{values}` in the SQL becomes as many rows of placeholders as there are.

    Between two statements a thread may have to wait for the interpreter, inside one it does not, so rows written
    together should be one statement. The texts are made once, in few sizes, and stay prepared.
    """

    def __init__(self, table: str, sql: str, columns: int) -> None:
        row = f"({','.join('?' * columns)})"
        self._table = table
        self._texts = {size: sql.format(values=",".join([row] * size)) for size in _BULK_SIZES}

    def write(self, hop: Hop, rows: Sequence[tuple[Any, ...]]) -> int:
        """How many rows it changed."""
        return sum(hop.write(self._table, text, flat) for text, flat in self._pieces(rows))

    def changed(self, hop: Hop, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What its RETURNING says of the rows it changed."""
        return [row for text, flat in self._pieces(rows) for row in hop.changed(self._table, text, flat)]

    def _pieces(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        start = 0
        while start < len(rows):
            size = _bulk_size(len(rows) - start)
            yield self._texts[size], tuple(chain.from_iterable(rows[start : start + size]))
            start += size


_BULK_SIZES = (*range(1, 17), 32, 64)


def _bulk_size(rows: int) -> int:
    """The largest size that is not above `rows`."""
    return rows if rows <= 16 else 64 if rows >= 64 else 32 if rows >= 32 else 16


class Errand(Generic[T]):
    """A piece of work, and the future of the one who waits for it."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Work[T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.result: T | None = None
        self.error: Exception | None = None

    def settle(self) -> None:
        if self.future.done():  # the waiter was cancelled; what was asked has happened all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # T may itself be Optional


Errands = Sequence[Errand[Any]]


class Threads:
    """One thread per connection; `carry` is how a thread takes errands through the database."""

    def __init__(
        self,
        name: str,
        connections: Sequence[apsw.Connection],
        carry: Callable[[Hop, Errands], None],
        *,
        count_read: Count,
        count_write: Count,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._carry = carry
        self._count_read = count_read
        self._count_write = count_write
        self._gathering: list[Errand[Any]] = []
        self._queue: SimpleQueue[list[Errand[Any]] | None] = SimpleQueue()
        self._is_closed = False
        self._ended = asyncio.Event()
        self._alive = len(connections)
        for number, connection in enumerate(connections):
            threading.Thread(target=self._live, args=(Hop(connection),), name=f"{name}-{number}", daemon=True).start()

    async def run(self, work: Work[T]) -> T:
        if self._is_closed:
            raise Unavailable("the tables are closed")
        future: asyncio.Future[T] = self._loop.create_future()
        errand = Errand(work, future)
        if not self._gathering:
            self._loop.call_soon(self._hand_over)
        self._gathering.append(errand)
        return await future

    async def close(self) -> None:
        """Finishes what waits, then ends the threads and their connections."""
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

    def _live(self, hop: Hop) -> None:
        """The thread. One None in the queue ends one thread, after what was put before it."""
        errands = self._queue.get()
        while errands is not None:
            is_last = self._take_waiting(errands)
            try:
                self._carry(hop, errands)
            except Exception as error:  # our mistake, but nobody may wait for ever
                _fail(hop, errands, Unavailable(repr(error), is_ambiguous=True))
            if not self._tell(self._settle, errands, *hop.take_tally()):
                break
            errands = None if is_last else self._queue.get()
        hop.connection.close()
        self._tell(self._end_one)

    def _take_waiting(self, errands: list[Errand[Any]]) -> bool:
        """Adds all that waits by now; True when the end was among it."""
        try:
            while (more := self._queue.get_nowait()) is not None:
                errands += more
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

    def _settle(self, errands: Errands, reads: dict[str, int], writes: dict[str, int]) -> None:
        for table, rows in reads.items():
            self._count_read(table, rows)
        for table, rows in writes.items():
            self._count_write(table, rows)
        for errand in errands:
            errand.settle()

    def _end_one(self) -> None:
        self._alive -= 1
        if not self._alive:
            self._ended.set()


def read_together(hop: Hop, errands: Errands) -> None:
    """All errands on one snapshot, taken after the last of them was asked."""
    try:
        with _transaction(hop, "BEGIN"):
            for errand in errands:
                try:
                    errand.result = errand.work(hop)
                except Exception as error:
                    errand.error = _as_store_error(error)
    except Unavailable as error:
        _fail(hop, errands, error)


def write_together(hop: Hop, errands: Errands) -> None:
    """All errands in one commit. Only when one fails is everything undone and done again, each behind a savepoint."""
    try:
        try:
            with _transaction(hop, "BEGIN IMMEDIATE"):
                for errand in errands:
                    _attempt(hop, errand)
        except _Undone:
            hop.take_tally()
            _write_apart(hop, errands)
    except Unavailable as error:
        _fail(hop, errands, error)


class _Undone(Exception):
    """An errand failed in the middle of its writes; the transaction was rolled back."""


def _attempt(hop: Hop, errand: Errand[Any]) -> None:
    try:
        errand.result = errand.work(hop)
    except StoreError as verdict:
        errand.error = verdict
    except Exception as error:
        raise _Undone from error


def _write_apart(hop: Hop, errands: Errands) -> None:
    with _transaction(hop, "BEGIN IMMEDIATE"):
        for errand in errands:
            errand.result = errand.error = None
            hop.execute("SAVEPOINT errand")
            try:
                _attempt(hop, errand)
            except _Undone as undone:
                assert isinstance(undone.__cause__, Exception)
                errand.error = _as_store_error(undone.__cause__)
                if not hop.connection.in_transaction:  # SQLite gave the whole transaction up: the disk, not the errand
                    raise Unavailable(str(undone.__cause__)) from undone
                hop.execute("ROLLBACK TO errand")
            hop.execute("RELEASE errand")


@contextmanager
def _transaction(hop: Hop, begin: str) -> Iterator[None]:
    """Commits what is done inside. SQLite's own errors come out as Unavailable, with everything rolled back."""
    try:
        hop.execute(begin)
        yield
    except BaseException as error:
        _roll_back(hop)
        if isinstance(error, apsw.Error):
            raise _as_store_error(error) from error
        raise
    try:
        hop.execute("COMMIT")
    except apsw.Error as error:
        _roll_back(hop)
        raise Unavailable(str(error), is_ambiguous=_is_ambiguous(error)) from error


def _is_ambiguous(error: apsw.Error) -> bool:
    """Whether a failed COMMIT may still turn out to have happened.

    Without the lock nothing was written, and without room the commit mark was not; but after a failed write or sync the
    mark may be on the disk, where a recovery would find it.
    """
    return not isinstance(error, apsw.BusyError | apsw.FullError)


def _roll_back(hop: Hop) -> None:
    try:
        if hop.connection.in_transaction:
            hop.execute("ROLLBACK")
    except apsw.Error:
        return  # the transaction is over either way; the error that led here is the one to report


def _as_store_error(error: Exception) -> Exception:
    return Unavailable(str(error)) if isinstance(error, apsw.Error) else error


def _fail(hop: Hop, errands: Errands, error: Unavailable) -> None:
    """Everyone in the transaction hears the same: a verdict given inside it may rest on what was rolled back."""
    hop.take_tally()
    for errand in errands:
        errand.error = Unavailable(str(error), is_ambiguous=error.is_ambiguous)
