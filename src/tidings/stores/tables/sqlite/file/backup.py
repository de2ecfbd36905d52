"""A copy of the SQLite tables while nodes use them, and the mark that says that tables were put back from one.

A copy is one file as of one moment, the write-ahead log included, checked before it gets its name. Restored tables get
another epoch: clients that remember numbers from after the copy then know that these count no more.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.sqlite.file.file import connect


def back_up(path: Path, to: Path) -> int:
    """Copy the tables to a file that must not exist yet, mode 0600, and answer its bytes.

    Raises OSError or Unavailable.
    """
    if to.exists():
        raise FileExistsError(errno.EEXIST, "it is there already; name a file that is not", str(to))
    if not to.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder; make it first", str(to.parent))
    part = to.with_name(to.name + ".part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        _copy(path, part)
    except apsw.Error as error:
        raise Unavailable(f"cannot copy {path} to {to}: {error}") from error
    _keep(part, to)
    return to.stat().st_size


def _copy(path: Path, part: Path) -> None:
    """Write the rows of one snapshot into a new file. Free pages, which may hold erased texts, are not copied.

    A reader does not hold up writers in WAL.
    """
    source = connect(path)
    try:
        source.execute("VACUUM INTO ?", (str(part),))
    finally:
        source.close()
    target = apsw.Connection(str(part))
    try:
        target.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, without a log beside it
        found = target.execute("PRAGMA quick_check").fetchall()
        if found != [("ok",)]:
            raise Unavailable(f"the copy of {path} is damaged: {found[0][0]}")
    finally:
        target.close()


def _keep(part: Path, to: Path) -> None:
    """Sync the file before it gets its name, and the folder after it."""
    _sync(part)
    part.rename(to)
    _sync(to.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def renew_epoch(path: Path, clock: Clock) -> str:
    """Another epoch for tables that were put back; raises Unavailable."""
    epoch = clock.random_id()
    try:
        connection = connect(path)
        try:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'store_epoch'", (epoch,))
        finally:
            connection.close()
    except apsw.Error as error:
        raise Unavailable(f"cannot mark {path} as restored: {error}") from error
    return epoch
