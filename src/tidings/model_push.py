"""The nouns of push and of what waits for delivery. Imports nothing of ours, like model.py.

A `Device` is where one app of one user can be told of something. A `Waiting` row says what a user's devices have not
acknowledged past the grace time. A `Notice` is what one device is told, whoever carries it; the carrier answers with an
`Outcome`. Nothing here holds a message's text unless the operator asked for previews.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from enum import Enum
from typing import Literal
from urllib.parse import urlsplit

import msgspec

Provider = Literal["apns", "fcm", "webpush"]

_APNS_TOKEN = re.compile(r"[0-9A-Fa-f]{32,200}\Z")  # it becomes part of a path
_FCM_TOKEN = re.compile(r"[A-Za-z0-9_:.=-]{16,4096}\Z")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A registered device. For Web Push the token is the subscription's endpoint, and the two keys are its own."""

    user_id: str
    device_id: str
    provider: Provider
    token: str
    p256dh: str | None = None
    auth: str | None = None
    registered_ms: int = 0
    last_seen_ms: int = 0


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a user has not received in one conversation: one row, however many messages."""

    user_id: str
    conversation_id: str
    first_seq: int
    last_seq: int
    since_ms: int
    expires: int  # seconds since 1970, as the time to live of a DynamoDB row wants it


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What one device is told. Silent: no alert and no sound, the badge alone."""

    device: Device
    collapse_id: str  # a later notice with the same one takes the place of the earlier
    badge: int
    title: str | None = None
    body: str | None = None
    is_silent: bool = False
    conversation_id: str | None = None
    seq_no: int | None = None


class Verdict(Enum):
    """What became of a notice."""

    SENT = "sent"
    GONE = "gone"  # the token will never work again: forget it
    LATER = "later"  # not now: the same notice, after retry_after_s
    REFUSED = "refused"  # trying again would be refused again
    SKIPPED = "skipped"  # this carrier has no such thing as a silent notice


class Outcome(msgspec.Struct, frozen=True):
    verdict: Verdict
    reason: str = ""  # in the provider's own word, for the log and the dead letters; never a token
    retry_after_s: float | None = None  # None: the provider did not say
    is_for_all: bool = False  # LATER for every device of this provider, not for this one alone


SENT = Outcome(Verdict.SENT)


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One user to be told of one entry, or (without a conversation) of another badge."""

    user_id: str
    made_ms: int
    conversation_id: str = ""
    seq_no: int = 0
    device_ids: tuple[str, ...] = ()  # only these: the others were told already. Empty: all
    but_device: str = ""  # the one that caused it, and so knows
    tries: int = 0


def is_token(provider: Provider, token: str) -> bool:
    """Whether it can be a token of this provider (of Web Push: `is_endpoint` says)."""
    if provider == "apns":
        return _APNS_TOKEN.match(token) is not None
    return provider == "fcm" and _FCM_TOKEN.match(token) is not None


def is_endpoint(url: str, hosts: Iterable[str]) -> bool:
    """Whether we would post to this address: https, and one of the hosts (`*.` = any name below).

    A subscription comes from a client. Without the list it could make us post to any address that we can reach.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme != "https" or parts.hostname is None or parts.username is not None or not url.isascii():
        return False
    if any(char <= " " or char in "\\\x7f" for char in url):
        return False
    place = parts.hostname if port in (None, 443) else f"{parts.hostname}:{port}"
    return any(place == host or (host.startswith("*.") and place.endswith(host[1:])) for host in hosts)


def short_id(text: str, chars_max: int) -> str:
    """The same text if it fits, else a digest of it: providers bound what they collapse by."""
    if len(text) <= chars_max:
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:chars_max]
