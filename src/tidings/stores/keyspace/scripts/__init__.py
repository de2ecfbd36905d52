"""One typed stub for each Lua script, grouped by the room that uses it. `LUA` is the text of every script."""

from __future__ import annotations

from tidings.stores.keyspace.scripts import archive, audit, messaging, push, receipts, session, tally

MODULES = (messaging, receipts, push, session, audit, archive, tally)
LUA = tuple(source for module in MODULES for source in module.SOURCES.values())
