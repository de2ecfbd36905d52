"""The format of a segment: contents of one conversation in a range of numbers, compressed, with a checksum.

An object is the line `tidings segment 2`, the SHA-256 of the rest (32 bytes), and the rest: zlib over the JSON object
{"conversation_id", "contents": {seq: content}}. Version 1 had {"conversation_id", "texts": {seq: text}} and stays
readable. The reference that a row keeps as s3_ref is `first-last.fence.digest`: the range, the fence of the archiver
that wrote it, and the first 12 digits of the checksum. So an object that was cut, changed or swapped is recognised, and
no two archivers ever write or delete the same name. docs/run/cold-tier.md explains it to operators.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidings.model import Content

MAGIC = b"tidings segment 2\n"
_MAGIC_1 = b"tidings segment 1\n"
_DIGEST_BYTES = 32
_LEVEL = 6  # of zlib: twice the time of level 1, a tenth smaller
_PART_CHARS = 200  # of a folder's name: file systems take 255 bytes
_REF = re.compile(r"(\d{1,16})-(\d{1,16})\.(\d{1,16})\.([0-9a-f]{12})\Z")


class Damaged(Exception):
    """The object does not match its reference; the text says why."""


class Segment(msgspec.Struct, frozen=True):
    conversation_id: str
    contents: dict[int, Content]


class _Version1(msgspec.Struct, frozen=True):
    conversation_id: str
    texts: dict[int, str]


class Ref(NamedTuple):
    """The parts of a row's s3_ref."""

    first: int
    last: int
    fence: int
    digest: str

    def __str__(self) -> str:
        return f"{self.first}-{self.last}.{self.fence}.{self.digest}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Segment).decode
_decode_1 = msgspec.json.Decoder(_Version1).decode


def pack(conversation_id: str, contents: Mapping[int, Content], fence: int) -> tuple[str, bytes]:
    """Make the reference and the object. The same contents under the same fence give the same result."""
    assert contents
    rest = zlib.compress(_encode(Segment(conversation_id, dict(sorted(contents.items())))), _LEVEL)
    digest = hashlib.sha256(rest).digest()
    return str(Ref(min(contents), max(contents), fence, digest.hex()[:12])), MAGIC + digest + rest


def unpack(conversation_id: str, s3_ref: str, data: bytes) -> Segment:
    """Decode an object. Raises Damaged unless it is exactly as written, for this conversation and reference."""
    start = len(MAGIC) + _DIGEST_BYTES
    digest, rest = data[len(MAGIC) : start], data[start:]
    if not data.startswith((MAGIC, _MAGIC_1)) or hashlib.sha256(rest).digest() != digest:
        raise Damaged("the checksum is wrong")
    if parse_ref(s3_ref).digest != digest.hex()[:12]:
        raise Damaged("it is another segment")
    try:
        raw = zlib.decompress(rest)
        segment = _decode(raw) if data.startswith(MAGIC) else _from_version_1(raw)
    except (zlib.error, msgspec.DecodeError) as error:
        raise Damaged(f"it cannot be read: {error}") from None
    if segment.conversation_id != conversation_id:
        raise Damaged("it is of another conversation")
    return segment


def _from_version_1(raw: bytes) -> Segment:
    stored = _decode_1(raw)
    return Segment(stored.conversation_id, {seq_no: Content(text) for seq_no, text in stored.texts.items()})


def size_of(content: Content) -> int:
    """The bytes of a content in a segment, before it is compressed."""
    return len(_encode(content))


def parse_ref(s3_ref: str) -> Ref:
    found = _REF.match(s3_ref)
    if found is None:
        raise Damaged("the reference does not have the form first-last.fence.digest")
    return Ref(int(found[1]), int(found[2]), int(found[3]), found[4])


# --- names ----------------------------------------------------------------------------------------


def folder_of(archive_id: str, conversation_id: str) -> str:
    """The folder of a conversation's segments. A capital is written `=x`, because some file systems treat A and a as
    equal. Every part begins with `c`, so that none is `..`."""
    plain = re.sub(r"[A-Z]", lambda found: "=" + found[0].lower(), conversation_id)
    parts = [f"c{plain[at : at + _PART_CHARS]}" for at in range(0, len(plain), _PART_CHARS)]
    shard = f"{zlib.crc32(conversation_id.encode()) & 0xFF:02x}"
    return "/".join((archive_id, shard, *parts))


def name_of(archive_id: str, conversation_id: str, s3_ref: str) -> str:
    return f"{folder_of(archive_id, conversation_id)}/{s3_ref}"


def parse_name(name: str) -> tuple[str, str] | None:
    """(conversation_id, s3_ref), or None for an object that is not a segment."""
    folder, _, s3_ref = name.rpartition("/")
    conversation_id = parse_folder(folder)
    return (conversation_id, s3_ref) if conversation_id is not None and _REF.match(s3_ref) else None


def parse_folder(folder: str) -> str | None:
    """The conversation whose folder this is, or None."""
    _, shard, *parts = folder.split("/") if folder.count("/") >= 2 else ("", "")
    if not shard or not all(part.startswith("c") for part in parts):
        return None
    plain = "".join(part[1:] for part in parts)
    return re.sub(r"=([a-z])", lambda found: found[1].upper(), plain)
