"""`tidings key`: make a server API key, list those there are, withdraw one.

A name should belong to one key, because limits and the audit stream go by it; whoever makes a second is told so. An
exception to the limits goes with the last key of its name, so that another key never has it unasked. Only the hash of a
key is stored, and no verb shows more of it than its beginning. Nodes remember a key for API_KEY_S: that soon a
withdrawn one is refused on all.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidings.cli_verb import BY, Verb, checked, load, on_stores, print_json
from tidings.config_values import text

if TYPE_CHECKING:
    from tidings.model import ApiKey
    from tidings.wiring import Core

_HASH_CHARS = 8  # of a hash are enough to tell two keys apart, and say nothing about the key


def _create(arguments: argparse.Namespace) -> int:
    name = str(checked("--name", text, arguments.name))
    _begin(arguments)

    async def work(core: Core) -> str:
        from tidings.gateway.auth import hash_api_key
        from tidings.model import ApiKey

        if await _named(core, name):
            print(f"There is a key named {name!r} already: limits and audit take both for one.", file=sys.stderr)
        key, now_ms = f"tk_{core.clock.random_id(32)}", core.clock.now_ms()
        made = ApiKey(key_hash=hash_api_key(key), name=name, role=arguments.role, created_ms=now_ms)
        await core.tables.put_api_key(made)
        core.limiting.audit.acted("key.created", BY, detail=f"{made.role} {name}")
        return key

    key = on_stores(arguments, work)
    if arguments.json:
        print_json({"key": key, "name": name, "role": arguments.role})
    else:
        print(key)
        print("Keep it now: only its hash is stored, and it is not shown again.", file=sys.stderr)
    return 0


def _begin(arguments: argparse.Namespace) -> None:
    """Who names the folder or the file may make a key before the first start; the default may be a mistake."""
    from tidings import node

    loaded = load(arguments)
    is_named = {loaded.sources["data"], loaded.sources["tables"]} != {"default"}
    if is_named and not loaded.settings.tables.startswith("dynamodb:"):
        node.check_tables(loaded.settings, create=True)


def _list(arguments: argparse.Namespace) -> int:
    found = on_stores(arguments, lambda core: core.tables.api_keys())
    if arguments.json:
        print_json([_fields(key) for key in found])
        return 0
    for key in found:
        at = datetime.fromtimestamp(key.created_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        print(f"{key.name:<24} {key.role:<9} {at}  {key.key_hash[:_HASH_CHARS]}")
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    async def work(core: Core) -> tuple[list[ApiKey], bool]:
        from tidings.errors import Missing

        keys = [key for key in await _named(core, arguments.name) if key.key_hash.startswith(arguments.hash)]
        if not keys:
            which = f"{arguments.name!r}" + (f" with a hash like {arguments.hash!r}" if arguments.hash else "")
            raise Missing(f"there is no key named {which}; `tidings key list` shows them")
        for key in keys:
            await core.tables.remove_api_key(key.key_hash)
            core.limiting.audit.acted("key.revoked", BY, detail=f"{key.role} {key.name}")
        return keys, not await _named(core, arguments.name) and await _clear_limit(core, arguments.name)

    gone, is_cleared = on_stores(arguments, work)
    if arguments.json:
        print_json([_fields(key) for key in gone])
        return 0
    from tidings.gateway.auth import API_KEY_S

    for key in gone:
        which = f"{key.name} ({key.role}, {key.key_hash[:_HASH_CHARS]})"
        print(f"revoked {which}; every node refuses it within {API_KEY_S:g} s")
    if is_cleared:
        print(f"the exception to the limits for {arguments.name} is gone with it")
    return 0


async def _clear_limit(core: Core, name: str) -> bool:
    """False: there was none."""
    from tidings.messaging.limits import KEY_CLASS

    overrides = await core.limiting.overrides.all()
    if not any((one.scope, one.name, one.class_name) == ("key", name, KEY_CLASS) for one in overrides):
        return False
    await core.limiting.overrides.remove("key", name, KEY_CLASS)
    core.limiting.audit.acted("limits.clear", BY, detail=f"key {name} {KEY_CLASS}")
    return True


async def _named(core: Core, name: str) -> list[ApiKey]:
    return [key for key in await core.tables.api_keys() if key.name == name]


def _fields(key: ApiKey) -> dict[str, Any]:
    hash_prefix = key.key_hash[:_HASH_CHARS]
    return {"name": key.name, "role": key.role, "created_at": key.created_ms, "hash_prefix": hash_prefix}


def _create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="what the key is for: limits and the audit stream go by it")
    parser.add_argument("--role", choices=("admin", "readonly"), default="admin", help="(default admin)")


def _revoke_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="every key of this name")
    parser.add_argument("--hash", default="", metavar="PREFIX", help="only the one whose hash begins so, as listed")


VERBS: dict[str, Verb] = {
    "key create": Verb("make a server API key, shown once", _create, _create_arguments),
    "key list": Verb("every API key by name, role and age; never the key", _list),
    "key revoke": Verb("withdraw an API key", _revoke, _revoke_arguments),
}
