"""REST requests in the documented form: what the server would refuse is refused here, and nothing is sent.

Ids and seqs may be what somebody typed, so every path is built by `path_of`: no part of it can lead elsewhere. Queries
and bodies go through the server's own structs and are refused with its words. account.py and server.py call it,
rest.py for bodies; wire.py does the same for frames.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def checked_ids(ids: Sequence[str], name: str) -> list[str]:
    """A list of ids. A string is one too, of its letters: nobody means that."""
    if isinstance(ids, str):
        raise BadRequest(f"{name} is a list of ids, not one of them")
    return list(ids)


def checked_credential(text: str, name: str) -> str:
    """A token or key that a header can carry. An error does not repeat it."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is a string, not {type(text).__name__}")
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{name} has a character that none has: a line end at its end, perhaps")
    return text


def check_types(asked: msgspec.Struct) -> None:
    """Bytes, dates and UUIDs would become strings on the wire, and not those that were meant."""
    given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not msgspec.UNSET}
    try:
        msgspec.convert(given, type(asked))
    except msgspec.ValidationError as problem:
        raise refusal_of(problem) from None


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
    check_types(asked)
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
