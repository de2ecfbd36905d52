"""`tidings unread` and `tidings search`: compare the indexes with the tables, repair them, or make them again."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from tidings.cli.verb import Verb, checked, on_stores, print_report, show
from tidings.config.values import safe_user_id

if TYPE_CHECKING:
    from tidings.node.graph import Core


def _unread(repair: bool, arguments: argparse.Namespace) -> int:
    user_id = None if arguments.user is None else checked("--user", safe_user_id, arguments.user)
    report = on_stores(arguments, lambda core: core.verify.run(user_id, repair=repair))
    print_report(report, arguments.json)
    return 0 if repair or not report.wrong else 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", help="this user only (default: every user)")


def _rebuild(arguments: argparse.Namespace) -> int:
    conversations, entries = on_stores(arguments, _index_all)
    counts = {"conversations": conversations, "entries": entries}
    show(arguments, counts, f"{conversations} conversations with {entries} entries are indexed")
    return 0


async def _index_all(core: Core) -> tuple[int, int]:
    """Index the conversations of every user. The tables know conversations by the inboxes that they are in."""
    if core.tables.search is None:
        return 0, 0
    await core.tables.search.clear()
    seen: set[str] = set()
    entries, after_id = 0, ""
    while users := await core.tables.inboxes.users(after_id=after_id, limit=100):
        for user_id in users:
            row_id = ""
            while rows := await core.tables.inboxes.scan(user_id, after_id=row_id, limit=100):
                for conversation_id in {row.conversation_id for row in rows} - seen:
                    seen.add(conversation_id)
                    entries += await core.searching.indexer.catch_up(conversation_id)
                row_id = rows[-1].conversation_id
        after_id = users[-1]
    return len(seen), entries


VERBS: dict[str, Verb] = {
    "unread verify": Verb("compare unread counts with the tables", partial(_unread, False), _arguments),
    "unread repair": Verb("repair unread counts that differ from the tables", partial(_unread, True), _arguments),
    "search rebuild": Verb("make the search index again from the stored messages", _rebuild),
}
