"""`tidings key`: create, list and revoke the API keys of servers.

A name should belong to one key, because limits and the audit stream use the name; `create` warns about a second key. An
exception to the limits is removed with the last key of its name, so that a later key never inherits it. Only the hash
of a key is stored, and no verb shows more than the first characters of the hash. Nodes remember a key for API_KEY_S:
after that time every node refuses a revoked key.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tidings.cli.verb import BY, Verb, checked, load, on_stores, print_json, run, utc
from tidings.config.values import text

if TYPE_CHECKING:
    from tidings.node.graph import Core
    from tidings.stores.tables.values import ApiKey

_HASH_CHARS = 8  # they tell two keys apart and reveal nothing about the key


def _create(arguments: argparse.Namespace) -> int:
    name = str(checked("--name", text, arguments.name))
    _begin(arguments)

    async def work(core: Core) -> str:
        from tidings.gateway.auth import hash_api_key
        from tidings.stores.tables.values import ApiKey

        if await _named(core, name):
            print(f"Another key is named {name!r}: limits and audit treat both as one.", file=sys.stderr)
        key, now_ms = f"tk_{core.clock.random_id(32)}", core.clock.now_ms()
        made = ApiKey(key_hash=hash_api_key(key), name=name, role=arguments.role, created_ms=now_ms)
        await core.tables.accounts.put_api_key(made)
        core.limiting.audit.acted("key.created", BY, detail=f"{made.role} {name}")
        return key

    key = on_stores(arguments, work)
    if arguments.json:
        print_json({"key": key, "name": name, "role": arguments.role})
    else:
        print(key)
        print("Copy the key now: only its hash is stored, so it cannot be shown again.", file=sys.stderr)
    return 0


def _begin(arguments: argparse.Namespace) -> None:
    """Create tables on this machine before the first start, where the user names them: the default may be a mistake."""
    from tidings.cli import tables
    from tidings.config.settings import tables_url
    from tidings.node.stores import tables_adapter

    loaded = load(arguments)
    is_named = {loaded.sources["data"], loaded.sources["tables"]} != {"default"}
    is_here = tables_adapter(loaded.settings).folder(tables_url(loaded.settings)) is not None
    if is_named and is_here:
        run(tables.check(loaded.settings, create=True))


def _list(arguments: argparse.Namespace) -> int:
    found = on_stores(arguments, lambda core: core.tables.accounts.api_keys())
    if arguments.json:
        print_json([_fields(key) for key in found])
        return 0
    for key in found:
        print(f"{key.name:<24} {key.role:<9} {utc(key.created_ms)}  {key.key_hash[:_HASH_CHARS]}")
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    async def work(core: Core) -> tuple[list[ApiKey], bool]:
        from tidings.errors import Missing

        keys = [key for key in await _named(core, arguments.name) if key.key_hash.startswith(arguments.hash)]
        if not keys:
            which = f"{arguments.name!r}" + (f" with a hash that begins {arguments.hash!r}" if arguments.hash else "")
            raise Missing(f"no key is named {which}; `tidings key list` shows every key")
        for key in keys:
            await core.tables.accounts.remove_api_key(key.key_hash)
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
        print(f"the exception to the limits for {arguments.name} is removed too")
    return 0


async def _clear_limit(core: Core, name: str) -> bool:
    """Remove the exception to the limits of this key; False when it has none."""
    from tidings.messaging.limits.policy import KEY_CLASS

    overrides = await core.limiting.overrides.all()
    if not any((one.scope, one.name, one.class_name) == ("key", name, KEY_CLASS) for one in overrides):
        return False
    await core.limiting.overrides.remove("key", name, KEY_CLASS)
    core.limiting.audit.acted("limits.clear", BY, detail=f"key {name} {KEY_CLASS}")
    return True


async def _named(core: Core, name: str) -> list[ApiKey]:
    return [key for key in await core.tables.accounts.api_keys() if key.name == name]


def _fields(key: ApiKey) -> dict[str, Any]:
    hash_prefix = key.key_hash[:_HASH_CHARS]
    return {"name": key.name, "role": key.role, "created_at": key.created_ms, "hash_prefix": hash_prefix}


def _create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", required=True, help="the purpose of the key; limits and the audit stream use this name"
    )
    parser.add_argument(
        "--role",
        choices=("admin", "readonly", "moderator"),
        default="admin",
        help="readonly sees everything and changes nothing; moderator decides reports and no more (default admin)",
    )


def _revoke_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="revoke every key of this name")
    parser.add_argument(
        "--hash",
        default="",
        metavar="PREFIX",
        help="revoke only the key whose hash begins with this, as `key list` shows it",
    )


VERBS: dict[str, Verb] = {
    "key create": Verb("create an API key for a server and show it once", _create, _create_arguments),
    "key list": Verb("print name, role and date of every API key, never the key", _list),
    "key revoke": Verb("revoke an API key", _revoke, _revoke_arguments),
}
