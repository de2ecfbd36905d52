"""Sections: the settings that belong together, one class each. settings.py puts them into one tree.

The path of a setting is the name of its section and its own: `limits.send`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.bounds import Limit
from tidings.clock import Clock
from tidings.config import values


def setting(default: str | Callable[[], str] | None, parse: Callable[[str], Any], about: str, **traits: bool) -> Any:
    """Define one setting. The parser also reads the default text; a callable makes one default per process.

    Traits: `is_secret` (never shown), `has_file` (`_FILE` variable exists), `is_flag_only` (neither variable nor key).
    """
    metadata = {"parse": parse, "about": about, "traits": frozenset(name for name, holds in traits.items() if holds)}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=None if default is None else parse(default), metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Auth:
    secret: str | None = setting(
        None, values.secret, "HS256 secret that signs user tokens", is_secret=True, has_file=True
    )
    secret_previous: str | None = setting(
        None,
        values.secret,
        "older secret; while it is set, tokens signed with it are valid too",
        is_secret=True,
        has_file=True,
    )
    jwks_url: str | None = setting(None, values.web_url, "URL of the public keys of user tokens", has_file=True)
    jwks_ca_file: Path | None = setting(None, values.path, "PEM file of the private CA of the host of the public keys")
    jwks_proxy: str | None = setting(None, values.web_url, "HTTP proxy through which the keys are read", has_file=True)
    issuer: str | None = setting(
        None,
        values.text,
        "required `iss` of user tokens; without secret and jwks_url: the URL with the OpenID keys",
    )
    audience: str | None = setting(None, values.text, "required `aud` of user tokens; unset = any")
    user_claim: str = setting("sub", values.text, "claim of user tokens that holds the user id")
    role_claim: str = setting("role", values.text, "claim of user tokens that names a role; limits use it")

    @property
    def discovers(self) -> bool:
        """Whether the keys are found by the issuer's OpenID configuration."""
        has_key = self.secret is not None or self.jwks_url is not None
        return not has_key and (self.issuer or "").startswith(("https://", "http://"))

    @property
    def has_public_keys(self) -> bool:
        return self.jwks_url is not None or self.discovers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    send: Limit | None = setting("100/60s", values.limit, "limit of sent messages, per user")
    read: Limit | None = setting(
        "6000/60s", values.limit, "limit of inbox, history, receipt and read requests, per user"
    )
    typing: Limit | None = setting("600/60s", values.limit, "limit of typing frames, per user")
    connect: Limit | None = setting("300/60s", values.limit, "limit of connects, per user")
    http: Limit | None = setting("6000/60s", values.limit, "limit of REST requests, per user")
    create: Limit | None = setting(
        "20/60s", values.limit, "limit of conversations made, members changed and names changed, per user"
    )
    reaction: Limit | None = setting("300/60s", values.limit, "limit of reactions set and taken away, per user")
    search: Limit | None = setting("300/60s", values.limit, "limit of searches for messages and people, per user")
    upload: Limit | None = setting("100/60s", values.limit, "limit of uploads begun, per user")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files:
    max_bytes: int = setting("104857600", values.whole(1, 5 * 1024**3), "largest file, in bytes")
    per_day_bytes: int = setting("1073741824", values.whole(1, 10**15), "bytes that one user may upload in a day")
    types: tuple[str, ...] = setting(
        "*", values.media_types, "comma-separated media types that may be sent, such as image/*"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unread:
    cap: int = setting(
        "10000", values.whole(1, 1_000_000), "unread messages counted exactly, per conversation and member"
    )
    ttl_days: int = setting("30", values.whole(1, 3_650), "days that an unused unread index stays in the keyspace")
    policy: str = setting(
        "until_read",
        values.choice("until_read", "when_offline"),
        "until_read = a message counts until it is read; when_offline = until it is delivered",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Archive:
    after_days: int | None = setting(
        "30", values.days_or_off, "days until texts move to blobs; 0 = at once, off = never"
    )
    every_s: int = setting("3600", values.whole(1, 86_400), "seconds between two archive passes, about")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Push:
    grace_s: int = setting(
        "10", values.whole(5, 3_600), "seconds that a device has to acknowledge before it is notified"
    )
    preview: bool = setting("false", values.flag, "true = a notification shows the beginning of the message")
    apns_key_file: Path | None = setting(None, values.path, ".p8 key file of Apple's push service; unset = not used")
    apns_key_id: str | None = setting(None, values.text, "id of the APNs key")
    apns_team_id: str | None = setting(None, values.text, "id of the Apple developer team")
    apns_topic: str | None = setting(None, values.text, "bundle id of the app")
    apns_url: str = setting("https://api.push.apple.com", values.web_url, "address of Apple's push service")
    fcm_credentials_file: Path | None = setting(
        None, values.path, "JSON file of a Firebase service account; unset = not used"
    )
    fcm_url: str = setting("https://fcm.googleapis.com", values.web_url, "address of Google's push service")
    vapid_key_file: Path | None = setting(
        None, values.path, "PEM file with the P-256 key of Web Push; unset = not used"
    )
    vapid_contact: str | None = setting(
        None, values.contact, "mailto: or https: address by which push services can reach the operator"
    )
    webpush_hosts: tuple[str, ...] = setting(
        "fcm.googleapis.com,*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com",
        values.push_hosts,
        "hosts of push services that browsers may use; *.example.com = any host below example.com",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    private_addresses: bool = setting(
        "false", values.flag, "true = endpoints may have private addresses and http:// (always true with --dev)"
    )
    before_send_url: str | None = setting(
        None, values.web_url, "endpoint that decides about each message before it is stored; unset = none"
    )
    timeout_ms: int = setting("300", values.whole(10, 10_000), "milliseconds that this endpoint has for its verdict")
    on_failure: str = setting(
        "allow",
        values.choice("allow", "refuse"),
        "allow = a message without a verdict in time is sent; refuse = it is refused for now",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    id: str = setting(lambda: Clock().random_id(6), values.safe_id, "name of this node; no other node may have it")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    format: str = setting(
        "auto", values.choice("auto", "console", "json"), "console, json, or auto (console on a terminal)"
    )
    level: str = setting(
        "info",
        values.choice("debug", "info", "warning", "error"),
        "lowest level that is logged: debug, info, warning or error",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metrics:
    port: int | None = setting(
        None, values.whole(0, 65_535), "separate port for /metrics; unset = /metrics is on the main port"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tls:
    cert: Path | None = setting(
        None, values.path, "PEM file of the node's certificate with its chain; unset = plain HTTP"
    )
    key: Path | None = setting(None, values.path, "PEM file of the certificate's key; unset = the key is in tls.cert")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Otel:
    endpoint: str | None = setting(None, values.web_url, "OTLP collector for traces, http://host:4318; unset = off")
    every: int = setting("100", values.whole(1, 1_000_000), "one batch of this many is traced")
