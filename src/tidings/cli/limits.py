"""`tidings limits`: list, set and clear exceptions to the rate limits of the settings.

The verbs open the stores themselves, with or without running nodes. Every change is written to the audit stream.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tidings.bounds import CLASSES
from tidings.cli.verb import BY, Verb, checked, on_stores, show
from tidings.config import values
from tidings.config.values import SettingsError

if TYPE_CHECKING:
    from tidings.node.graph import Core
    from tidings.stores.tables.values import Override


def _set(arguments: argparse.Namespace) -> int:
    scope, name = _scope(arguments)
    count, window_s = checked("--limit", _limit, arguments.limit)

    async def work(core: Core) -> Override:
        limiting = core.limiting
        stored = await limiting.overrides.put(scope, name, arguments.class_name, count=count, window_s=window_s)
        _audit(core, "limits.set", scope, name, f"{arguments.class_name} {_shown(stored)}")
        if scope == "key" and not any(key.name == name for key in await core.tables.accounts.api_keys()):
            print(f"No key is named {name!r} yet: the limit will hold for a key that gets this name.", file=sys.stderr)
        return stored

    stored = on_stores(arguments, work)
    show(arguments, _fields(stored), _line(stored))
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    scope, name = _scope(arguments)

    async def work(core: Core) -> None:
        await core.limiting.overrides.remove(scope, name, arguments.class_name)
        _audit(core, "limits.clear", scope, name, arguments.class_name)

    on_stores(arguments, work)
    show(arguments, {"scope": scope, "name": name, "class": arguments.class_name, "cleared": True})
    return 0


def _list(arguments: argparse.Namespace) -> int:
    found = on_stores(arguments, lambda core: core.limiting.overrides.all())
    show(arguments, [_fields(one) for one in found], *map(_line, found))
    return 0


def _audit(core: Core, action: str, scope: str, name: str, detail: str) -> None:
    user_id = name if scope == "user" else "-"
    core.limiting.audit.acted(action, BY, user_id=user_id, detail=f"{scope} {name} {detail}")


def _scope(arguments: argparse.Namespace) -> tuple[str, str]:
    given = [(scope, name) for scope in ("user", "role", "key") if (name := getattr(arguments, scope)) is not None]
    if len(given) != 1:
        raise SettingsError("give exactly one of --user, --role and --key: the limit holds for this one")
    return given[0]


def _limit(text: str) -> tuple[int | None, int]:
    """Count and window. `0/60s` is valid here: it refuses every request."""
    if text.startswith("0/"):
        block = values.limit("1" + text[1:])
        return 0, block.window_s if block else 60
    limit = values.limit(text)
    return (limit.count, limit.window_s) if limit else (None, 60)


def _shown(one: Override) -> str:
    return "off" if one.count is None else f"{one.count}/{one.window_s}s"


def _line(one: Override) -> str:
    return f"{one.scope:<5} {one.name:<24} {one.class_name:<8} {_shown(one)}"


def _fields(one: Override) -> dict[str, Any]:
    limit = {"limit": one.count, "window_s": one.window_s, "changed_at": one.changed_ms}
    return {"scope": one.scope, "name": one.name, "class": one.class_name, **limit}


def _scope_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", help="the limit of this user")
    parser.add_argument("--role", help="the limit of every user whose token names this role")
    parser.add_argument("--key", help="the limit of the API key of this name")
    parser.add_argument("--class", dest="class_name", choices=CLASSES, required=True, help="the class of requests")


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    _scope_arguments(parser)
    parser.add_argument(
        "--limit", required=True, help="100/60s (count/seconds); 0/60s refuses everything; off = no limit"
    )


VERBS: dict[str, Verb] = {
    "limits list": Verb("print every exception to the rate limits", _list),
    "limits set": Verb("give a user, a role or an API key another limit", _set, _set_arguments),
    "limits clear": Verb("remove an exception to the rate limits", _clear, _scope_arguments),
}
