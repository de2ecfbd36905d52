"""`tidings audit`: show the audit stream, and count its minutes again.

The verbs open the stores themselves, with or without running nodes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tidings.cli.verb import Verb, checked, on_stores, print_report, utc
from tidings.config.values import SettingsError, whole

if TYPE_CHECKING:
    from tidings.node.graph import Core
    from tidings.operators.audit.reader import AuditEntry

FOLLOW_S = 0.5  # between two reads of a follower


def _tail(arguments: argparse.Namespace) -> int:
    count = checked("--count", whole(1, 100_000), arguments.count)
    if arguments.from_id is not None:
        checked("--from", _audit_id, arguments.from_id)

    async def work(core: Core) -> None:
        reader = core.limiting.reader
        if not arguments.follow:
            for entry in await reader.tail(arguments.from_id, count):
                _print_entry(entry, arguments.json)
            return
        async for entry in reader.follow(arguments.from_id, count, FOLLOW_S):
            _print_entry(entry, arguments.json)

    on_stores(arguments, work)
    return 0


def _print_entry(entry: AuditEntry, is_json: bool) -> None:
    """Print one line for each entry, so that a program can read a stream of them."""
    import msgspec

    if is_json:
        print(msgspec.json.encode(entry).decode(), flush=True)
        return
    at, event = utc(entry.at_ms, "milliseconds"), entry.event
    if event is None:
        print(f"{entry.id}  {at}  not readable", flush=True)
        return
    rest = "  ".join(word for word in (event.by and f"by {event.by}", event.detail) if word)
    what = f"{event.kind:<10} {event.class_name:<12} {event.user_id:<20} {event.count:>6}"
    print(f"{entry.id}  {at}  {what}  {rest}".rstrip(), flush=True)


def _replay(arguments: argparse.Namespace) -> int:
    checked("--from", _audit_id, arguments.from_id)
    if arguments.to_id is not None:
        checked("--to", _audit_id, arguments.to_id)
    report = on_stores(arguments, lambda core: core.limiting.replay.run(arguments.from_id, arguments.to_id))
    print_report(report, arguments.json)
    return 0


def _audit_id(text: str) -> str:
    from tidings.errors import BadRequest
    from tidings.operators.audit.reader import place_of

    try:
        place_of(text)
    except BadRequest as error:
        raise SettingsError(f"{text!r} is not an audit id; {error}") from None
    return text


def _tail_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="from_id", metavar="ID", help="print entries after this one (default: the newest entries)"
    )
    parser.add_argument("--count", default="20", help="print at most this many entries that exist now (default 20)")
    parser.add_argument("--follow", action="store_true", help="then wait for new entries and print them too")


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="from_id", metavar="ID", required=True, help="start at the minute of this entry")
    parser.add_argument("--to", dest="to_id", metavar="ID", help="end at the minute of this entry (default: now)")


VERBS: dict[str, Verb] = {
    "audit tail": Verb("print refused requests, failed sign-ins and admin actions", _tail, _tail_arguments),
    "audit replay": Verb("count the minutes of the audit stream again, from its entries", _replay, _replay_arguments),
}
