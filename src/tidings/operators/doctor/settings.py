"""Checks of settings that are valid but unwise: guessable secrets, open origins, keys that cannot be read.

All answers come from the settings alone, except for one GET of the key set.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from tidings.bounds import CLASSES, DOCTOR_SECRET_BITS_MIN
from tidings.clock import Clock
from tidings.config.settings import ENV, Settings
from tidings.config.values import is_loopback
from tidings.stores.findings import Finding, advice, ok, unknown, wrong
from tidings.stores.keyspace.wire import spelled
from tidings.stores.tables.schemes import examples, scheme_of

_WORDS = re.compile(r"secret|passw|change|example|default|tidings|qwert|letmein|12345678", re.IGNORECASE)
_NEW_SECRET = f"openssl rand -hex 32 > auth.secret; chmod 600 auth.secret; {ENV}AUTH_SECRET_FILE=auth.secret"
_FETCH_S = 5.0


def check_settings(settings: Settings, sources: Mapping[str, str]) -> Iterator[Finding]:
    yield _check_sign_in(settings)
    if settings.auth.secret is not None:
        yield _check_secret(settings.auth.secret)
        yield from _check_secret_source(sources)
    yield from _check_origins(settings)
    yield from _check_limits(settings)
    yield from _check_keyspace_url(settings)
    yield from _check_push(settings)


def _check_sign_in(settings: Settings) -> Finding:
    if settings.dev:
        if is_loopback(settings.host):
            return advice("settings.sign_in", "--dev: sign-in is open to this machine", "leave --dev out in production")
        return wrong("settings.sign_in", "--dev opens sign-in, and the host is not loopback", "leave --dev out")
    if settings.auth.secret is None and not settings.auth.has_public_keys:
        return wrong("settings.sign_in", "nothing verifies user tokens: a node starts only with --dev", _NEW_SECRET)
    return ok(
        "settings.sign_in", "a key set verifies tokens" if settings.auth.has_public_keys else "a secret verifies tokens"
    )


def secret_bits(secret: str) -> float:
    """The upper bound of a secret's strength in bits: its length times the entropy of its characters."""
    size = len(secret)
    return sum(-n * math.log2(n / size) for n in Counter(secret).values())


def _check_secret(secret: str) -> Finding:
    bits = secret_bits(secret)
    if bits < DOCTOR_SECRET_BITS_MIN:
        return wrong(
            "settings.secret",
            f"auth.secret has at most {bits:.0f} bits; someone who guesses it can sign in as any user",
            _NEW_SECRET,
        )
    if _WORDS.search(secret):
        return wrong("settings.secret", "auth.secret contains words, and attackers try words first", _NEW_SECRET)
    return ok("settings.secret", f"auth.secret has {len(secret)} characters, up to {bits:.0f} bits")


def _check_secret_source(sources: Mapping[str, str]) -> Iterator[Finding]:
    if sources.get("auth.secret", "").startswith("flag"):
        yield advice(
            "settings.secret_source",
            "auth.secret is on the command line, where every user of this machine sees it",
            _NEW_SECRET,
        )


def _check_origins(settings: Settings) -> Iterator[Finding]:
    bare = [
        origin
        for origin in settings.allowed_origins
        if origin.startswith("http://") and not is_loopback(urlsplit(origin).hostname or "")
    ]
    if "*" in settings.allowed_origins:
        yield wrong(
            "settings.origins",
            "allowed_origins is *: any web page can open a socket in the name of its visitor",
            f"{ENV}ALLOWED_ORIGINS=https://your.page",
        )
    elif bare:
        better = ",".join(origin.replace("http://", "https://") for origin in bare)
        yield advice("settings.origins", f"{', '.join(bare)}: unencrypted pages", f"{ENV}ALLOWED_ORIGINS={better}")
    else:
        yield ok("settings.origins", ", ".join(settings.allowed_origins) or "same origin only")


def _check_limits(settings: Settings) -> Iterator[Finding]:
    off = [name for name in CLASSES if getattr(settings.limits, name) is None]
    if off:
        lines = " ".join(f"{ENV}LIMITS_{name.upper()}={'100' if name == 'send' else '6000'}/60s" for name in off)
        yield advice("settings.limits", f"no limit for {', '.join(off)}: one user can use the whole node", lines)


def _check_keyspace_url(settings: Settings) -> Iterator[Finding]:
    if settings.keyspace == "embedded" or settings.keyspace.startswith("unix:"):
        return
    scheme, _, rest = spelled(settings.keyspace).partition("://")
    place, _, options = rest.partition("?")
    who, _, names = place.partition("/")[0].rpartition("@")
    hosts = [(host.rpartition(":")[0] or host).strip("[]") for host in names.split(",")]
    if all(is_loopback(host) for host in hosts):
        return
    if scheme == "redis" or ("+" in scheme and "tls=" not in options):
        better = "?tls=true at the end of the URL" if "+" in scheme else "rediss:// instead of redis://"
        yield advice(
            "settings.keyspace", "the keyspace is reached over a network without TLS", f"{ENV}KEYSPACE: {better}"
        )
    if not who and "password_file=" not in options:
        yield advice(
            "settings.keyspace",
            "the keyspace is reached over a network without a password",
            "ACL SETUSER; then user:password@ in the URL",
        )
    if not scheme_of(settings.tables).is_shared:
        yield advice(
            "settings.tables",
            "the keyspace can be shared with other hosts, the tables cannot: all nodes must run on this host",
            f"{ENV}TABLES={examples(are_shared=True)} where nodes run on several hosts",
        )


def _check_push(settings: Settings) -> Iterator[Finding]:
    from tidings.stores.push.open import open_providers

    try:
        providers = open_providers(settings.push, Clock())
    except ValueError as error:
        yield wrong("settings.push", str(error), "name a readable key, or unset the setting to turn push off")
    except ImportError as error:
        yield wrong(
            "settings.push",
            f"a provider is configured, but its library is missing ({error})",
            "pip install '.[push]' in the clone",
        )
    else:
        yield ok(
            "settings.push", f"keys of {', '.join(providers)} can be read" if providers else "no provider is configured"
        )


class _KeySet(msgspec.Struct):
    keys: list[dict[str, object]]


async def check_jwks(url: str) -> Finding:
    """Fetch the key set once, as a node does."""
    import httpx2

    if url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        return wrong(
            "settings.jwks",
            "auth.jwks_url is not encrypted: someone in between can replace the keys and sign tokens",
            "use an https:// address",
        )
    try:
        async with httpx2.AsyncClient(timeout=_FETCH_S, follow_redirects=False, trust_env=False) as client:
            answer = await client.get(url)
            answer.raise_for_status()
            found = len(msgspec.json.decode(answer.content, type=_KeySet).keys)
    except (httpx2.HTTPError, msgspec.DecodeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return wrong("settings.jwks", f"auth.jwks_url gives no key set: {why}", f"curl -s {url}")
    if not found:
        return unknown("settings.jwks", "the key set is empty: no token will be accepted", f"curl -s {url}")
    return ok("settings.jwks", f"the key set has {found} keys")
