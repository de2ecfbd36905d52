"""Opens the push providers that are set up. Every mistake is a ValueError of one line that names the setting.

A provider is used when its key file is named; then its other settings are required. A key that cannot be read stops the
start: a node that starts and then notifies nobody would be worse.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tidings.clock import Clock
from tidings.stores.push.apns import Apns
from tidings.stores.push.fcm import Fcm
from tidings.stores.push.ports import Push
from tidings.stores.push.webpush import WebPush


class PushSettings(Protocol):
    """The push settings that config/settings.py defines."""

    @property
    def apns_key_file(self) -> Path | None: ...
    @property
    def apns_key_id(self) -> str | None: ...
    @property
    def apns_team_id(self) -> str | None: ...
    @property
    def apns_topic(self) -> str | None: ...
    @property
    def apns_url(self) -> str: ...
    @property
    def fcm_credentials_file(self) -> Path | None: ...
    @property
    def fcm_url(self) -> str: ...
    @property
    def vapid_key_file(self) -> Path | None: ...
    @property
    def vapid_contact(self) -> str | None: ...
    @property
    def webpush_hosts(self) -> tuple[str, ...]: ...


def open_providers(settings: PushSettings, clock: Clock) -> dict[str, Push]:
    """Open the providers: the `provider` of a device -> its provider. Empty when none is set up."""
    providers: dict[str, Push] = {}
    if settings.apns_key_file is not None:
        providers["apns"] = _open_apns(settings, settings.apns_key_file, clock)
    if settings.fcm_credentials_file is not None:
        providers["fcm"] = _open_fcm(settings, settings.fcm_credentials_file, clock)
    if settings.vapid_key_file is not None:
        providers["webpush"] = _open_webpush(settings, settings.vapid_key_file, clock)
    return providers


def _open_apns(settings: PushSettings, file: Path, clock: Clock) -> Apns:
    key = _read("push.apns_key_file", file)
    key_id = _required("push.apns_key_id", settings.apns_key_id)
    team_id = _required("push.apns_team_id", settings.apns_team_id)
    topic = _required("push.apns_topic", settings.apns_topic)
    try:
        return Apns(url=settings.apns_url, key=key, key_id=key_id, team_id=team_id, topic=topic, clock=clock)
    except ValueError as error:
        raise ValueError(f"push.apns_key_file {file}: {error}") from None


def _open_fcm(settings: PushSettings, file: Path, clock: Clock) -> Fcm:
    credentials = _read("push.fcm_credentials_file", file)
    try:
        return Fcm(url=settings.fcm_url, credentials=credentials, clock=clock)
    except ValueError as error:
        raise ValueError(f"push.fcm_credentials_file {file}: {error}") from None


def _open_webpush(settings: PushSettings, file: Path, clock: Clock) -> WebPush:
    key, contact = _read("push.vapid_key_file", file), _required("push.vapid_contact", settings.vapid_contact)
    try:
        return WebPush(key=key, contact=contact, hosts=settings.webpush_hosts, clock=clock)
    except ValueError as error:
        raise ValueError(f"push.vapid_key_file {file}: {error}") from None


def _read(name: str, file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{name}: cannot read {file}: {reason}") from None


def _required(name: str, value: str | None) -> str:
    if not value:
        raise ValueError(f"{name} is missing: the provider whose key is named needs it")
    return value
