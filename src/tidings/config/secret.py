"""The secret of user tokens: given by the operator, or made by --dev and kept in the data folder.

`to_serve` is the last check before a node starts, `to_sign` the check before a token is made. The file is 0600 in a
folder of 0700. Two nodes that start at the same time agree on one secret, and a crash never leaves half a file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from tidings.clock import Clock
from tidings.config.settings import ENV, Limits, Settings, guess_sources
from tidings.config.values import SettingsError, is_loopback, limit

SECRET_FILE = "auth.secret"


def to_serve(settings: Settings, sources: Mapping[str, str] | None = None) -> Settings:
    """Check that a node may start: --dev stays on loopback, and tokens can be verified.

    `sources` says where each value comes from. Without it, a value that equals the default is the default.
    """
    if settings.dev and not is_loopback(settings.host):
        raise SettingsError(
            f"--dev opens sign-in to everyone who can connect, so host must be 127.0.0.1 or ::1, not {settings.host}"
        )
    if settings.dev:
        settings = dataclasses.replace(settings, limits=_generous(settings.limits, sources or guess_sources(settings)))
    if settings.auth.secret or (settings.auth.has_public_keys and not settings.dev):
        return settings
    if not settings.dev:
        named = f"{ENV}AUTH_SECRET (or _FILE), {ENV}AUTH_JWKS_URL or {ENV}AUTH_ISSUER"
        raise SettingsError(f"set {named}, or start with --dev to try it out")
    return _with_secret(settings, make_secret(settings.data))


def _generous(limits: Limits, sources: Mapping[str, str]) -> Limits:
    """The limits of --dev: a developer who tries things out is no flood. A limit that the operator has set stays."""
    generous = {"send": "1000/60s", "create": "200/60s"}
    changed = {name: limit(text) for name, text in generous.items() if sources[f"limits.{name}"] == "default"}
    return dataclasses.replace(limits, **changed)


def to_sign(settings: Settings) -> Settings:
    """Find the secret to sign with: the one in the settings, or the one that --dev keeps."""
    if settings.auth.secret:
        return settings
    if settings.dev:
        return _with_secret(settings, make_secret(settings.data))
    if settings.auth.has_public_keys:
        raise SettingsError("public keys verify tokens, so only the owner of the private keys can make a token")
    kept = settings.data / SECRET_FILE
    if not kept.is_file():
        raise SettingsError(
            f"no secret: set {ENV}AUTH_SECRET, or run `tidings serve --dev` first, which writes one to {kept}"
        )
    return _with_secret(settings, _kept_secret(kept))


def _with_secret(settings: Settings, secret: str) -> Settings:
    return dataclasses.replace(settings, auth=dataclasses.replace(settings.auth, secret=secret))


def make_secret(data: Path) -> str:
    """Read the secret of the data folder; the first call makes it. A crash leaves a whole file or none."""
    kept = data / SECRET_FILE
    if not kept.exists():
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = data / f".{SECRET_FILE}.{Clock().random_id(6)}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(Clock().random_id(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, kept)  # fails if another node was first: then its secret holds
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return _kept_secret(kept)


def _kept_secret(kept: Path) -> str:
    secret = kept.read_text("utf-8").strip()
    if not secret:
        raise SettingsError(f"{kept} is empty; remove it, and `tidings serve --dev` makes a new one")
    return secret
