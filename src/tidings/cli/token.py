"""`tidings token create`: sign a user token with `auth.secret`, or with the secret that --dev keeps."""

from __future__ import annotations

import argparse

from tidings.cli.verb import Verb, checked, load, print_json
from tidings.clock import Clock
from tidings.config.secret import to_sign
from tidings.config.values import duration_s, safe_id


def _create(arguments: argparse.Namespace) -> int:
    from tidings.gateway.tokens import mint_token

    auth = to_sign(load(arguments).settings).auth
    user_id = checked("--user", safe_id, arguments.user)
    now_ms = Clock().now_ms()
    ttl_s = checked("--ttl", duration_s, arguments.ttl)
    token = mint_token(auth, user_id, ttl_s=ttl_s, now_ms=now_ms)
    if arguments.json:
        print_json({"token": token, "user_id": user_id, "expires_at": (now_ms // 1000 + ttl_s) * 1000})
    else:
        print(token)
    return 0


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the user id: the token's `sub`")
    parser.add_argument("--ttl", default="1h", help="the token is valid for this time: 90s, 15m, 1h, 30d (default 1h)")


VERBS: dict[str, Verb] = {
    "token create": Verb("make a user token, signed with auth.secret", _create, _arguments),
}
