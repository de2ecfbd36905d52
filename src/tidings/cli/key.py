"""`tidings key`: create, list and revoke the API keys of servers.

`create` warns about a second key of a name. No verb shows more than the first characters of a hash
(gateway/http/operators/api_keys.py).
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tidings.cli.verb import BY, Verb, checked, load, on_stores, run, show, utc
from tidings.config.values import SettingsError, safe_user_id, text

if TYPE_CHECKING:
    from tidings.gateway.http.operators.api_keys import ApiKeys
    from tidings.node.graph import Core
    from tidings.stores.tables.values import ApiKey

_HASH_CHARS = 8  # they tell two keys apart and reveal nothing about the key


def _create(arguments: argparse.Namespace) -> int:
    name = str(checked("--name", text, arguments.name))
    if (arguments.role == "bot") != (arguments.user is not None):
        raise SettingsError("--user names the user of a key of role bot; give both or neither")
    if arguments.user is not None:
        checked("--user", safe_user_id, arguments.user)
    _begin(arguments)

    async def work(core: Core) -> str:
        if await _keys(core).named(name):
            print(f"Another key is named {name!r}: limits and audit treat both as one.", file=sys.stderr)
        return (await _keys(core).create(name, arguments.role, BY, arguments.user))[0]

    key = on_stores(arguments, work)
    user = {"user_id": arguments.user} if arguments.role == "bot" else {}
    show(arguments, {"key": key, "name": name, "role": arguments.role, **user}, key)
    if not arguments.json:
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
    lines = [f"{key.name:<24} {key.role:<9} {utc(key.created_ms)}  {key.key_hash[:_HASH_CHARS]}" for key in found]
    show(arguments, [_fields(key) for key in found], *lines)
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    async def work(core: Core) -> tuple[list[ApiKey], bool]:
        from tidings.errors import Missing

        named = await _keys(core).named(arguments.name)
        keys = [key for key in named if key.key_hash.startswith(arguments.hash)]
        if not keys:
            which = f"{arguments.name!r}" + (f" with a hash that begins {arguments.hash!r}" if arguments.hash else "")
            raise Missing(f"no key is named {which}; `tidings key list` shows every key")
        return keys, any([await _keys(core).revoke(key, BY) for key in keys])

    gone, is_cleared = on_stores(arguments, work)
    from tidings.gateway.auth import API_KEY_S

    until = f"every node refuses it within {API_KEY_S:g} s"
    lines = [f"revoked {key.name} ({key.role}, {key.key_hash[:_HASH_CHARS]}); {until}" for key in gone]
    if is_cleared:
        lines.append(f"the exception to the limits for {arguments.name} is removed too")
    show(arguments, [_fields(key) for key in gone], *lines)
    return 0


def _keys(core: Core) -> ApiKeys:
    from tidings.gateway.http.operators.api_keys import ApiKeys

    return ApiKeys(core.tables.accounts, core.limiting.overrides, core.limiting.audit, core.clock)


def _fields(key: ApiKey) -> dict[str, Any]:
    hash_prefix = key.key_hash[:_HASH_CHARS]
    return {"name": key.name, "role": key.role, "created_at": key.created_ms, "hash_prefix": hash_prefix}


def _create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", required=True, help="the purpose of the key; limits and the audit stream use this name"
    )
    parser.add_argument(
        "--role",
        choices=("admin", "readonly", "moderator", "bot"),
        default="admin",
        help="readonly reads everything and changes nothing; moderator only decides reports; "
        "bot signs in as the one user that --user names (default admin)",
    )
    parser.add_argument("--user", help="the user as whom a key of role bot signs in")


def _revoke_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="revoke every key of this name")
    parser.add_argument(
        "--hash",
        default="",
        metavar="PREFIX",
        help="revoke only the key whose hash begins with this text; `key list` shows the beginning",
    )


VERBS: dict[str, Verb] = {
    "key create": Verb("create an API key for a server and show it once", _create, _create_arguments),
    "key list": Verb("print name, role and date of every API key, but never the key itself", _list),
    "key revoke": Verb("revoke an API key", _revoke, _revoke_arguments),
}
