"""`tidings token`: make a user token, and check one. The secret is `auth.secret`, or the one that --dev keeps."""

from __future__ import annotations

import argparse

from tidings.cli.verb import Verb, checked, load, print_report, run, show
from tidings.clock import Clock
from tidings.config.secret import to_sign
from tidings.config.sections import Auth
from tidings.config.values import duration_s, safe_user_id


def _create(arguments: argparse.Namespace) -> int:
    from tidings.gateway.tokens import mint_token

    auth = to_sign(load(arguments).settings).auth
    user_id = checked("--user", safe_user_id, arguments.user)
    now_ms = Clock().now_ms()
    ttl_s = checked("--ttl", duration_s, arguments.ttl)
    token = mint_token(auth, user_id, ttl_s=ttl_s, now_ms=now_ms)
    show(arguments, {"token": token, "user_id": user_id, "expires_at": (now_ms // 1000 + ttl_s) * 1000}, token)
    return 0


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the user id: the token's `sub`")
    parser.add_argument("--ttl", default="1h", help="the token is valid for this time: 90s, 15m, 1h, 30d (default 1h)")


def _verify(arguments: argparse.Namespace) -> int:
    """Check a token as a node with these settings would. Only a node knows whether it was revoked."""
    settings = load(arguments).settings
    auth = (settings if settings.auth.has_public_keys else to_sign(settings)).auth
    found = run(_checked(auth, arguments.token))
    print_report(found, arguments.json)
    return 0 if found["valid"] else 1


async def _checked(auth: Auth, token: str) -> dict[str, object]:
    from tidings.gateway.tokens import BadToken, Tokens

    clock = Clock()
    tokens = Tokens(auth, clock)
    try:
        identity = await tokens.verify(token)
    except BadToken as error:
        return {"valid": False, "reason": error.reason, "cause": str(error)}
    finally:
        await tokens.close()
    facts = {"user_id": identity.user_id, "role": identity.role, "expires_at": identity.expires_ms}
    if identity.expires_ms <= clock.now_ms():
        return {"valid": False, "reason": "expired", "cause": "exp is in the past", **facts}
    return {"valid": True, **facts}


VERBS: dict[str, Verb] = {
    "token create": Verb("make a token for a user, signed with auth.secret", _create, _arguments),
    "token verify": Verb(
        "print the user and the end of a token, or the reason why a node refuses it",
        _verify,
        lambda parser: parser.add_argument("token", help="the token"),
    ),
}
