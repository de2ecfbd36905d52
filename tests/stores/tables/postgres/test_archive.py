"""The contract of the archive on PostgreSQL."""

from __future__ import annotations

from tests.contracts.archives import ArchivesContract


class TestArchives(ArchivesContract): ...
