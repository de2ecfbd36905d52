"""Small files that claim, or hold, far more than they have."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claiming(width: int, height: int, rows: bytes = zlib.compress(bytes(20_000_000)), more: bytes = b"") -> bytes:
    """A PNG of a few kilobytes that claims this many pixels, and holds the beginning of them."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def zipped(size: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(size))
    return out.getvalue()


BOMBS = {
    "40,000 x 40,000": claiming(40_000, 40_000),
    "half a picture": claiming(7_000, 7_000),
    "a zip bomb": zipped(100_000_000),
    "a stream bomb": zlib.compress(bytes(100_000_000)),
    "a text bomb": claiming(9, 9, more=chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(200_000_000)))),
}
