"""Tokens however odd: what an attacker could sign with a secret that leaked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from tests.support.gateway.served import SECRET


def sign(header: dict[str, Any], claims: Any, secret: bytes = SECRET.encode()) -> str:
    """An HS256 signature over any header and claims, however odd."""

    def b64(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = b64(json.dumps(header).encode()) + b"." + b64(json.dumps(claims).encode())
    return (signed + b"." + b64(hmac.new(secret, signed, hashlib.sha256).digest())).decode()
