"""Tickets: the signed right to send one part, or to read one file, for a short time.

The bytes of a folder pass the node, by URLs that name no user and need no token: a browser cannot put a header into
`<img src>`. A ticket is a JSON array and its MAC. The key is made from the secret of the tables, so all nodes share it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

import msgspec

from tidings.base64url import from_base64url, to_base64url
from tidings.clock import Clock
from tidings.errors import NotFound

_MAC_BYTES = 16


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    right: Literal["write", "read"]
    user_id: str
    conversation_id: str
    file_id: str
    expires_ms: int
    start: int = 0  # of the part that may be written
    thumbnail: int = 0  # the size of the thumbnail that may be read; 0: the file itself
    is_download: bool = False  # the browser saves it, whatever it is


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Ticket).decode


class Tickets:
    def __init__(self, secret: str, clock: Clock) -> None:
        self._key = hashlib.blake2b(b"tickets of files", key=secret.encode()[:64]).digest()
        self._clock = clock

    def sign(self, ticket: Ticket) -> str:
        raw = _encode(ticket)
        return to_base64url(self._mac(raw) + raw)

    def verify(self, text: str, right: str) -> Ticket:
        """Raises NotFound: it was not made here, is over, or gives another right."""
        try:
            both = from_base64url(text)
            mac, raw = both[:_MAC_BYTES], both[_MAC_BYTES:]
            if hmac.compare_digest(mac, self._mac(raw)):
                ticket = _decode(raw)
                if ticket.right == right and ticket.expires_ms > self._clock.now_ms():
                    return ticket
        except ValueError:
            pass
        raise NotFound("this link is over: ask for a new one")

    def _mac(self, raw: bytes) -> bytes:
        return hashlib.blake2b(raw, key=self._key, digest_size=_MAC_BYTES).digest()
