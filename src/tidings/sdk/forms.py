"""REST requests in the documented form: what the server would refuse is refused here, and nothing is sent.

Ids and seqs may be what somebody typed, so every path is built by `path_of`: no part of it can lead elsewhere. Queries
and bodies go through the server's own structs and are refused with its words. account.py and server.py call it,
rest.py for bodies; wire.py does the same for frames.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.bounds import HTTP_BODY_BYTES_MAX
from tidings.errors import BadRequest, TooLarge
from tidings.gateway.bodies import MessagePatch, NewMessage
from tidings.gateway.protocol import INTEGER_MAX, check_text, refusal_of
from tidings.model import is_id


def path_of(*parts: str | int) -> str:
    """`/v1/` and the parts: words, ids, and seqs as numbers."""
    return "/v1/" + "/".join(_seq(one) if isinstance(one, int) else checked_id(one) for one in parts)


def checked_id(text: str) -> str:
    """A user or conversation id, or the refusal of it."""
    if not isinstance(text, str) or not is_id(text):
        raise BadRequest(f"not an id: {str(text)[:40]!r}")
    return text


def query_of(asked: msgspec.Struct) -> dict[str, Any]:
    """The fields by name; those that are None are not sent."""
    given = msgspec.json.decode(_encoded(asked))
    return {name: value for name, value in given.items() if value is not None}


def body_of(asked: msgspec.Struct) -> bytes:
    raw = _encoded(asked)
    if isinstance(asked, NewMessage | MessagePatch):
        check_text(asked.text)
    if len(raw) > HTTP_BODY_BYTES_MAX:
        raise TooLarge(f"a body has {HTTP_BODY_BYTES_MAX} bytes at most")
    return raw


def _encoded(asked: msgspec.Struct) -> bytes:
    try:
        raw = msgspec.json.encode(asked)
        msgspec.json.decode(raw, type=type(asked))
    except (msgspec.DecodeError, UnicodeEncodeError) as problem:
        raise refusal_of(problem) from None
    return raw


def _seq(number: int) -> str:
    if not 0 <= number <= INTEGER_MAX:
        raise BadRequest("not a seq")
    return str(int(number))
