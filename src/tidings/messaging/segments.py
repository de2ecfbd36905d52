"""The form of a segment: the texts of one conversation's entries in a range of numbers, compressed, under a checksum.

An object is the line `tidings segment 1`, the SHA-256 of the rest (32 bytes), and the rest: zlib over the JSON object
{"conversation_id", "texts": {seq: text}}. Its reference, what a row keeps as s3_ref, is `first-last.fence.digest`: the
range, the fence of the archiver that wrote it, and the first 12 digits of the checksum. So an object that was cut,
flipped or swapped for another is recognised, and no two archivers ever write or delete the same name.
Used by archive.py, recheck.py and cold.py; docs/cold-tier.md is the page for people.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

MAGIC = b"tidings segment 1\n"
_DIGEST_BYTES = 32
_LEVEL = 6  # of zlib: twice the time of level 1, a tenth smaller
_PART_CHARS = 200  # of a folder's name: file systems take 255 bytes
_REF = re.compile(r"(\d{1,16})-(\d{1,16})\.(\d{1,16})\.([0-9a-f]{12})\Z")


class Damaged(Exception):
    """The object is not what its reference says, in a few words."""


class Segment(msgspec.Struct, frozen=True):
    conversation_id: str
    texts: dict[int, str]


class Ref(NamedTuple):
    """What a row's s3_ref says."""

    first: int
    last: int
    fence: int
    digest: str

    def __str__(self) -> str:
        return f"{self.first}-{self.last}.{self.fence}.{self.digest}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Segment).decode


def pack(conversation_id: str, texts: Mapping[int, str], fence: int) -> tuple[str, bytes]:
    """The reference and the object. The same texts under the same fence give the same ones."""
    assert texts
    rest = zlib.compress(_encode(Segment(conversation_id, dict(sorted(texts.items())))), _LEVEL)
    digest = hashlib.sha256(rest).digest()
    return str(Ref(min(texts), max(texts), fence, digest.hex()[:12])), MAGIC + digest + rest


def unpack(conversation_id: str, s3_ref: str, data: bytes) -> Segment:
    """Raises Damaged unless every byte is as it was written, for this conversation and this reference."""
    start = len(MAGIC) + _DIGEST_BYTES
    digest, rest = data[len(MAGIC) : start], data[start:]
    if not data.startswith(MAGIC) or hashlib.sha256(rest).digest() != digest:
        raise Damaged("the checksum is wrong")
    if parse_ref(s3_ref).digest != digest.hex()[:12]:
        raise Damaged("it is another segment")
    try:
        segment = _decode(zlib.decompress(rest))
    except (zlib.error, msgspec.DecodeError) as error:
        raise Damaged(f"it cannot be read: {error}") from None
    if segment.conversation_id != conversation_id:
        raise Damaged("it is of another conversation")
    return segment


def parse_ref(s3_ref: str) -> Ref:
    found = _REF.match(s3_ref)
    if found is None:
        raise Damaged("the reference is not of the form first-last.fence.digest")
    return Ref(int(found[1]), int(found[2]), int(found[3]), found[4])


# --- names ----------------------------------------------------------------------------------------


def folder_of(archive_id: str, conversation_id: str) -> str:
    """Of a conversation's segments. Capitals are written `=x`: some file systems take A and a for the same; and every
    part begins with `c`, so that none is `..`."""
    plain = re.sub(r"[A-Z]", lambda found: "=" + found[0].lower(), conversation_id)
    parts = [f"c{plain[at : at + _PART_CHARS]}" for at in range(0, len(plain), _PART_CHARS)]
    shard = f"{zlib.crc32(conversation_id.encode()) & 0xFF:02x}"
    return "/".join((archive_id, shard, *parts))


def name_of(archive_id: str, conversation_id: str, s3_ref: str) -> str:
    return f"{folder_of(archive_id, conversation_id)}/{s3_ref}"


def parse_name(name: str) -> tuple[str, str] | None:
    """(conversation_id, s3_ref), or None: not an object of ours."""
    _, shard, *parts, s3_ref = name.split("/") if name.count("/") >= 3 else ("", "", "")
    if not shard or not _REF.match(s3_ref) or not all(part.startswith("c") for part in parts):
        return None
    plain = "".join(part[1:] for part in parts)
    return re.sub(r"=([a-z])", lambda found: found[1].upper(), plain), s3_ref
