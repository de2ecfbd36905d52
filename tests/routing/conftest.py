"""Two nodes without sockets on one keyspace: the same as for messaging."""

from __future__ import annotations

from tests.messaging.conftest import a as a
from tests.messaging.conftest import b as b
from tests.messaging.conftest import group as group
