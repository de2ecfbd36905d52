"""`tidings webhook`: make, list, remove and replay the webhooks of the deployment.

A verb works on the stores, beside running nodes or without any. Nodes know of a change after WEBHOOKS_STALE_S at the
latest, and `add` waits for that.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tidings.cli.verb import BY, Verb, load, on_stores, show, utc
from tidings.config.values import SettingsError

if TYPE_CHECKING:
    from tidings.messaging.integration.hooks import Hook
    from tidings.node.graph import Core


def _add(arguments: argparse.Namespace) -> int:
    from tidings.model import KINDS
    from tidings.stores.outbound import fault_of

    settings = load(arguments).settings
    if fault := fault_of(arguments.url, allows_private=settings.hooks.private_addresses or settings.dev):
        hint = "" if fault_of(arguments.url, allows_private=True) else "; for an endpoint of a --dev node add --dev"
        raise SettingsError(f"bad value for --url: {fault}{hint}")
    kinds = _words(arguments.kinds)
    if strange := [kind for kind in kinds if kind not in KINDS]:
        raise SettingsError(f"bad value for --kinds: {strange[0]!r} is none of {', '.join(KINDS)}")

    async def work(core: Core) -> Hook:
        hook = await core.integration.hooks.create(
            arguments.url,
            kinds=kinds,
            conversation_ids=_words(arguments.conversations),
            is_from_start=arguments.begin == "start",
        )
        core.limiting.audit.acted("webhook.created", BY, detail=hook.webhook_id)
        return hook

    hook = on_stores(arguments, work)
    show(arguments, _fields(hook) | {"secret": hook.secret}, f"{hook.webhook_id}  {hook.secret}")
    if not arguments.json:
        print("Copy the secret now: it signs every request, and no verb shows it again.", file=sys.stderr)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    async def work(core: Core) -> list[dict[str, Any]]:
        found = []
        for hook in await core.integration.hooks.all():
            state = await core.integration.lag.state(hook.webhook_id)
            found.append(_fields(hook) | {"behind_by": state.behind_by, "paused": len(state.paused)})
        return found

    rows = on_stores(arguments, work)
    show(arguments, rows, *map(_line, rows))
    return 0


def _line(row: dict[str, Any]) -> str:
    trouble = f"  paused in {row['paused']} conversations" if row["paused"] else ""
    return f"{row['webhook_id']}  {utc(row['created_at'])}  behind by {row['behind_by']}  {row['url']}{trouble}"


def _remove(arguments: argparse.Namespace) -> int:
    async def work(core: Core) -> None:
        await core.integration.hooks.remove(arguments.id)
        core.limiting.audit.acted("webhook.removed", BY, detail=arguments.id)

    on_stores(arguments, work)
    show(arguments, {"webhook_id": arguments.id}, f"removed {arguments.id}")
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    async def work(core: Core) -> None:
        await core.integration.lag.replay(arguments.id, arguments.conversation, arguments.from_seq)
        detail = f"{arguments.id} {arguments.conversation} {arguments.from_seq}"
        core.limiting.audit.acted("webhook.replayed", BY, detail=detail)

    on_stores(arguments, work)
    place = {"webhook_id": arguments.id, "conversation_id": arguments.conversation, "from_seq": arguments.from_seq}
    show(arguments, place, f"{arguments.id} gets {arguments.conversation} again from seq {arguments.from_seq} on")
    return 0


def _secret(arguments: argparse.Namespace) -> int:
    from tidings.messaging.integration.before_send import secret_of

    async def work(core: Core) -> str:
        core.limiting.audit.acted("webhook.secret_shown", BY)
        return secret_of(core.tables.accounts.secret)

    secret = on_stores(arguments, work)
    show(arguments, {"secret": secret}, secret)
    return 0


def _words(text: str) -> list[Any]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _fields(hook: Hook) -> dict[str, Any]:
    return {
        "webhook_id": hook.webhook_id,
        "url": hook.url,
        "from": "start" if hook.from_ms is None else "now",
        "created_at": hook.created_ms,
        "kinds": list(hook.kinds),
        "conversation_ids": list(hook.conversation_ids),
    }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", required=True, help="the endpoint to which every entry is posted")
    parser.add_argument("--kinds", default="", metavar="A,B", help="only entries of these kinds (default all)")
    parser.add_argument("--conversations", default="", metavar="A,B", help="only these conversations (default all)")
    parser.add_argument(
        "--from",
        dest="begin",
        choices=("now", "start"),
        default="now",
        help="begin with new entries, or at the start of each conversation",
    )


def _id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", required=True, help="the webhook, as `webhook list` shows it")


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    _id(parser)
    parser.add_argument("--conversation", required=True, help="the conversation to deliver again")
    parser.add_argument("--from-seq", type=int, required=True, help="the first entry to deliver again")


VERBS: dict[str, Verb] = {
    "webhook add": Verb("make a webhook and show its secret once", _add, _add_arguments),
    "webhook list": Verb("print every webhook and the number of entries that it has not got yet", _list),
    "webhook remove": Verb("remove a webhook", _remove, _id),
    "webhook secret": Verb("print the secret that signs the requests to the before-send hook", _secret),
    "webhook replay": Verb("deliver a conversation to a webhook again", _replay, _replay_arguments),
}
