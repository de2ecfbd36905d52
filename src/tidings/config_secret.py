"""The secret of user tokens: required, or kept in the data folder by --dev, whole or not at all.

`to_serve` is the last check before a node starts, `to_sign` the one before a token is made. The file is 0600 in a
folder of 0700; two nodes that start at once agree on one secret. Called by cli.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from tidings.clock import Clock
from tidings.config import ENV, Settings
from tidings.config_values import SettingsError, is_loopback

SECRET_FILE = "auth.secret"


def to_serve(settings: Settings) -> Settings:
    """The settings with which a node may start: --dev stays on loopback, and there is a way to check tokens."""
    if settings.dev and not is_loopback(settings.host):
        raise SettingsError(
            f"--dev opens sign-in to everyone who can connect, so host must be loopback, not {settings.host}"
        )
    if settings.auth.secret or (settings.auth.jwks_url and not settings.dev):
        return settings
    if not settings.dev:
        raise SettingsError(f"set {ENV}AUTH_SECRET (or _FILE) or {ENV}AUTH_JWKS_URL, or start with --dev to try it out")
    return _with_secret(settings, make_secret(settings.data))


def to_sign(settings: Settings) -> Settings:
    """The settings with which a token can be made: with the secret set, or else the one that --dev keeps."""
    if settings.auth.secret:
        return settings
    if settings.dev:
        return _with_secret(settings, make_secret(settings.data))
    if settings.auth.jwks_url:
        raise SettingsError("tokens are checked by auth.jwks_url, so only the owner of its keys can make one")
    kept = settings.data / SECRET_FILE
    if not kept.is_file():
        raise SettingsError(
            f"no secret: set {ENV}AUTH_SECRET, or run `tidings serve --dev` first, which keeps one in {kept}"
        )
    return _with_secret(settings, _kept_secret(kept))


def _with_secret(settings: Settings, secret: str) -> Settings:
    return dataclasses.replace(settings, auth=dataclasses.replace(settings.auth, secret=secret))


def make_secret(data: Path) -> str:
    """The secret of the data folder, made at the first call. Whole or absent: a crash never leaves half of it."""
    kept = data / SECRET_FILE
    if not kept.exists():
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = data / f".{SECRET_FILE}.{Clock().random_id(6)}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(Clock().random_id(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, kept)  # fails if another node was first: then its secret is the one
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return _kept_secret(kept)


def _kept_secret(kept: Path) -> str:
    secret = kept.read_text("utf-8").strip()
    if not secret:
        raise SettingsError(f"{kept} is empty; remove it to have a new secret made")
    return secret
