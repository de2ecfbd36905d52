"""The verbs of limits and audit: who has another limit than the settings say, and what the audit stream holds.

They work on the stores themselves, beside running nodes or without any. A change is an entry of the audit stream.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidings import config_values
from tidings.cli_verb import BY, Verb, checked, on_stores, print_json, print_report
from tidings.config_values import SettingsError

if TYPE_CHECKING:
    from tidings.messaging.audit_read import AuditEntry
    from tidings.model import Override
    from tidings.wiring import Core
    from tidings.wiring_limits import Limiting

T = TypeVar("T")
FOLLOW_S = 0.5  # between two looks
CLASSES = ("send", "read", "typing", "connect", "http")


def _run(arguments: argparse.Namespace, work: Callable[[Limiting], Awaitable[T]]) -> T:
    return on_stores(arguments, lambda core: work(core.limiting))


# --- limits ---------------------------------------------------------------------------------------


def _set(arguments: argparse.Namespace) -> int:
    scope, name = _whose(arguments)
    limit = checked("--limit", _limit, arguments.limit)
    count, window_s = limit

    async def work(core: Core) -> Override:
        limiting = core.limiting
        stored = await limiting.overrides.put(scope, name, arguments.class_name, count=count, window_s=window_s)
        _note(limiting, "limits.set", scope, name, f"{arguments.class_name} {_shown(stored)}")
        if scope == "key" and not any(key.name == name for key in await core.tables.api_keys()):
            print(f"There is no key named {name!r} yet: it holds for one that is made.", file=sys.stderr)
        return stored

    stored = on_stores(arguments, work)
    if arguments.json:
        print_json(_fields(stored))
    else:
        print(_line(stored))
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    scope, name = _whose(arguments)

    async def work(limiting: Limiting) -> None:
        await limiting.overrides.remove(scope, name, arguments.class_name)
        _note(limiting, "limits.clear", scope, name, arguments.class_name)

    _run(arguments, work)
    if arguments.json:
        print_json({"scope": scope, "name": name, "class": arguments.class_name, "cleared": True})
    return 0


def _list(arguments: argparse.Namespace) -> int:
    found = _run(arguments, lambda limiting: limiting.overrides.all())
    if arguments.json:
        print_json([_fields(one) for one in found])
        return 0
    for one in found:
        print(_line(one))
    return 0


def _note(limiting: Limiting, action: str, scope: str, name: str, what: str) -> None:
    user_id = name if scope == "user" else "-"
    limiting.audit.acted(action, BY, user_id=user_id, detail=f"{scope} {name} {what}")


def _whose(arguments: argparse.Namespace) -> tuple[str, str]:
    given = [(scope, name) for scope in ("user", "role", "key") if (name := getattr(arguments, scope)) is not None]
    if len(given) != 1:
        raise SettingsError("say for whom: one of --user, --role and --key")
    return given[0]


def _limit(text: str) -> tuple[int | None, int]:
    """0/60s too, which lets nothing pass."""
    if text.startswith("0/"):
        block = config_values.limit("1" + text[1:])
        return 0, block.window_s if block else 60
    limit = config_values.limit(text)
    return (limit.count, limit.window_s) if limit else (None, 60)


def _shown(one: Override) -> str:
    return "off" if one.count is None else f"{one.count}/{one.window_s}s"


def _line(one: Override) -> str:
    return f"{one.scope:<5} {one.name:<24} {one.class_name:<8} {_shown(one)}"


def _fields(one: Override) -> dict[str, Any]:
    limit = {"limit": one.count, "window_s": one.window_s, "changed_at": one.changed_ms}
    return {"scope": one.scope, "name": one.name, "class": one.class_name, **limit}


# --- audit ----------------------------------------------------------------------------------------


def _tail(arguments: argparse.Namespace) -> int:
    count = checked("--count", config_values.whole(1, 100_000), arguments.count)
    if arguments.from_id is not None:
        checked("--from", _audit_id, arguments.from_id)

    async def work(limiting: Limiting) -> None:
        if not arguments.follow:
            for entry in await limiting.reader.tail(arguments.from_id, count):
                _print_entry(entry, arguments.json)
            return
        async for entry in limiting.reader.follow(arguments.from_id, count, FOLLOW_S):
            _print_entry(entry, arguments.json)

    _run(arguments, work)
    return 0


def _print_entry(entry: AuditEntry, is_json: bool) -> None:
    """One line each, so that what follows can be read by programs too."""
    import msgspec

    if is_json:
        print(msgspec.json.encode(entry).decode(), flush=True)
        return
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    event = entry.event
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
    print_report(_run(arguments, lambda one: one.replay.run(arguments.from_id, arguments.to_id)), arguments.json)
    return 0


def _audit_id(text: str) -> str:
    from tidings.errors import BadRequest
    from tidings.messaging.audit_read import place_of

    try:
        place_of(text)
    except BadRequest as error:
        raise SettingsError(f"{text!r} is none; {error}") from None
    return text


# --- words ----------------------------------------------------------------------------------------


def _whose_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", help="for this user")
    parser.add_argument("--role", help="for everybody whose token names this role")
    parser.add_argument("--key", help="for the API key of this name")
    parser.add_argument("--class", dest="class_name", choices=CLASSES, required=True, help="of these requests")


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    _whose_arguments(parser)
    parser.add_argument("--limit", required=True, help="N/SECONDSs, 0/60s for nothing at all, or off for no limit")


def _tail_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="from_id", metavar="ID", help="what comes after this entry (default: the newest)"
    )
    parser.add_argument("--count", default="20", help="entries at most, before those to come (default 20)")
    parser.add_argument("--follow", action="store_true", help="go on with what comes")


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="from_id", metavar="ID", required=True, help="from the minute of this entry on")
    parser.add_argument("--to", dest="to_id", metavar="ID", help="up to the minute of this entry (default: now)")


VERBS: dict[str, Verb] = {
    "limits list": Verb("every exception to the rate limits", _list),
    "limits set": Verb("give a user, a role or an API key another limit", _set, _set_arguments),
    "limits clear": Verb("take such an exception back", _clear, _whose_arguments),
    "audit tail": Verb("who was refused, failed sign-ins, what admins did", _tail, _tail_arguments),
    "audit replay": Verb("count minutes of the audit stream anew", _replay, _replay_arguments),
}
