"""Builds the cold tier on the opened stores: what reads through it, and the archiver that fills it.

`Core.cold` is one of these. Everything that shows a text reads `messages`; node.py starts and stops `archiving`, and
the verbs of cli_archive.py use it.
"""

from __future__ import annotations

from functools import cached_property

from tidings.messaging.archive import Archiver, Writer
from tidings.messaging.archiving import Archiving
from tidings.messaging.cold import ReadThrough, Segments
from tidings.messaging.recheck import Rechecker
from tidings.messaging.slots import Slots
from tidings.opening import Stores
from tidings.stores.scripts_archive import ArchiveScripts


class ColdTier:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def _count(self, what: str, n: int) -> None:
        self._stores.metrics.archive[what].inc(n)

    @cached_property
    def segments(self) -> Segments:
        return Segments(self._stores.blobs, self._stores.archive.archive_id, self._count)

    @cached_property
    def messages(self) -> ReadThrough:
        """The log with every text in it, wherever it is."""
        stores = self._stores
        return ReadThrough(stores.tables, self.segments, stores.archive, stores.clock, self._count)

    @cached_property
    def _writer(self) -> Writer:
        stores = self._stores
        return Writer(stores.archive, stores.blobs, self.segments, stores.clock, self._count)

    @cached_property
    def archiving(self) -> Archiving:
        stores = self._stores
        repairs = stores.metrics.repairs
        slots = Slots(stores.tables, stores.clock, lambda what, n: repairs[what].inc(n))  # the rows as they are
        rechecker = Rechecker(
            log=stores.tables,
            tables=stores.archive,
            blobs=stores.blobs,
            segments=self.segments,
            writer=self._writer,
            clock=stores.clock,
            count=self._count,
        )
        return Archiving(
            keyspace=stores.keyspace,
            scripts=ArchiveScripts(stores.keys),
            conversations=stores.tables,
            tables=stores.archive,
            blobs=stores.blobs,
            archiver=Archiver(stores.archive, slots, self._writer, self._count),
            rechecker=rechecker,
            clock=stores.clock,
            holder=stores.settings.node.id,
            after_days=stores.settings.archive.after_days,
            every_s=stores.settings.archive.every_s,
            count=self._count,
        )
