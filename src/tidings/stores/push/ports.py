"""The port of push services: a `Notice` goes to one device, and the service answers with an `Outcome`.

A service never raises; its `Outcome` says what went wrong. A notice holds no text of a message unless the operator
asked for previews. `is_token` and `is_endpoint` decide which addresses we would ever post to.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from enum import Enum
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from tidings.model import Provider
from tidings.stores.tables.values import Device

_APNS_TOKEN = re.compile(r"[0-9A-Fa-f]{32,200}\Z")  # it becomes part of a path
_FCM_TOKEN = re.compile(r"[A-Za-z0-9_:.=-]{16,4096}\Z")


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A notification for one device. A silent notice has no alert and no sound, only the badge."""

    device: Device
    collapse_id: str  # a later notice with the same one takes the place of the earlier
    badge: int
    title: str | None = None
    body: str | None = None
    is_silent: bool = False
    conversation_id: str | None = None
    seq_no: int | None = None
    thread_seq: int | None = None  # the message is a reply of this thread alone


class Verdict(Enum):
    """The outcome of a notice."""

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


class Push(Protocol):
    """One provider's way to a device."""

    async def send(self, notice: Notice) -> Outcome: ...

    async def close(self) -> None: ...


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
    """Return the text, or a digest of a long one: providers limit the length of a collapse id."""
    if len(text) <= chars_max:
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:chars_max]
