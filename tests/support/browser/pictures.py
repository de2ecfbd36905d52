"""Pictures of the page, and a picture that people send each other."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from tests.support.browser.people import STILL, Person

KEPT = Path(__file__).resolve().parents[3] / "docs" / "pictures"
PICTURE_BYTES_MAX = 200_000

_SKY = ((255, 196, 120), (240, 110, 120), (92, 70, 150))  # from the horizon up
_SEA = ((226, 120, 110), (40, 48, 110))  # from the horizon down


async def picture(person: Person, file: Path) -> None:
    await person.until(STILL)
    drawn = await person.page.screenshot(path=file)
    assert 10_000 < len(drawn) < PICTURE_BYTES_MAX


def sunset(width: int, height: int) -> bytes:
    """The sun above the sea, as a PNG."""
    horizon, sun, radius = int(height * 0.62), (int(width * 0.64), int(height * 0.5)), height // 9
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            rows += bytes(_colour(x, y, width, height, horizon, sun, radius))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _colour(
    x: int, y: int, width: int, height: int, horizon: int, sun: tuple[int, int], radius: int
) -> tuple[int, int, int]:
    hill = horizon - int(height * 0.16 * max(0.0, 1 - ((x - width * 0.2) / (width * 0.28)) ** 2))
    if hill <= y < horizon:
        return (58, 44, 96)
    if y < horizon:
        if (x - sun[0]) ** 2 + (y - sun[1]) ** 2 < radius**2:
            return (255, 244, 214)
        share = (horizon - y) / horizon
        return _mixed(_SKY[0], _SKY[1], share * 2) if share < 0.5 else _mixed(_SKY[1], _SKY[2], share * 2 - 1)
    share = (y - horizon) / (height - horizon)
    if abs(x - sun[0]) < radius * (1 - share) and (y // 4) % 3 == 0:
        return (255, 214, 160)
    return _mixed(_SEA[0], _SEA[1], share)


def _mixed(one: tuple[int, int, int], other: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    a, b, c = (int(first + (second - first) * share) for first, second in zip(one, other, strict=True))
    return a, b, c


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
