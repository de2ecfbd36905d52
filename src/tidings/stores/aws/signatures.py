"""AWS's signature, version 4: of a request's text, of its headers, and of a URL that somebody else uses.

A signed URL is the right to make one request: this method, this object, these parameters and headers, for a while. It
leaves the body open. The key of a day is derived once a day.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import quote, urlsplit

from tidings.clock import Clock


class AwsKey(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def secret(self) -> str: ...
    @property
    def token(self) -> str | None: ...


class Signer:
    """Signs for one product in one region."""

    def __init__(self, product: str, region: str, clock: Clock) -> None:
        self._product = product
        self._region = region
        self._clock = clock
        self._derived: tuple[str, str, bytes] = ("", "", b"")  # the day, the secret, and their key

    def now(self) -> str:
        """The time as AWS writes it."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")

    def scope(self, at: str) -> str:
        return f"{at[:8]}/{self._region}/{self._product}/aws4_request"

    def signature(self, key: AwsKey, at: str, asked: str) -> str:
        """Sign the canonical text of a request."""
        text = f"AWS4-HMAC-SHA256\n{at}\n{self.scope(at)}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        return hmac.digest(self._day_key(key, at[:8]), text.encode(), "sha256").hex()

    def url(
        self, key: AwsKey, method: str, url: str, query: Mapping[str, str], headers: Mapping[str, str], expires_s: int
    ) -> str:
        """Sign a URL whose path is encoded already. The request must have these headers, named in small letters."""
        at, parts = self.now(), urlsplit(url)
        signed = {"host": parts.netloc, **headers}
        asked = {
            **query,
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{key.id}/{self.scope(at)}",
            "X-Amz-Date": at,
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": _names(signed),
            **({"X-Amz-Security-Token": key.token} if key.token else {}),
        }
        encoded = encoded_query(asked)
        text = _canonical(method, parts.path, encoded, signed, "UNSIGNED-PAYLOAD")
        return f"{parts._replace(query=encoded).geturl()}&X-Amz-Signature={self.signature(key, at, text)}"

    def headers(self, key: AwsKey, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The headers of a signed request: the given ones, and those that sign it. The URL is encoded already."""
        at, parts, digest = self.now(), urlsplit(url), hashlib.sha256(body).hexdigest()
        sent = {
            **headers,
            "x-amz-content-sha256": digest,
            "x-amz-date": at,
            **({"x-amz-security-token": key.token} if key.token else {}),
        }
        signed = {"host": parts.netloc, **sent}
        signature = self.signature(key, at, _canonical(method, parts.path, parts.query, signed, digest))
        credential = f"Credential={key.id}/{self.scope(at)}, SignedHeaders={_names(signed)}, Signature={signature}"
        return {**sent, "authorization": f"AWS4-HMAC-SHA256 {credential}"}

    def _day_key(self, key: AwsKey, day: str) -> bytes:
        if self._derived[:2] != (day, key.secret):
            derived = b"AWS4" + key.secret.encode()
            for part in (day, self._region, self._product, "aws4_request"):
                derived = hmac.digest(derived, part.encode(), "sha256")
            self._derived = (day, key.secret, derived)
        return self._derived[2]


def encoded_query(query: Mapping[str, str]) -> str:
    """The query of a URL, in the order that is signed."""
    return "&".join(sorted(f"{_quoted(name)}={_quoted(value)}" for name, value in query.items()))


def _canonical(method: str, path: str, query: str, signed: Mapping[str, str], digest: str) -> str:
    """The text of a request, as AWS writes it. `digest` stands for the body."""
    lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in sorted(signed))
    return f"{method}\n{path}\n{query}\n{lines}\n{_names(signed)}\n{digest}"


def _names(signed: Mapping[str, str]) -> str:
    return ";".join(sorted(signed))


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
