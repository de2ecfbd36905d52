"""The process that looks at pictures. It is started for one picture, and what a picture does to it ends with it.

A picture comes from a stranger, and a decoder of pictures is large: a few bytes may claim gigabytes of pixels. So no
node decodes one. This process has a limit of memory, of processor time, of open files and of pixels, before it reads
the first byte. Input: the picture on stdin. Output on stdout: a JSON line with width and height, then, where a size was
asked for, a WebP of at most that size. It imports nothing of a node.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import warnings

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "AVIF")


def limit(memory_bytes: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes no file
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def look(data: bytes, size: int, pixels_max: int) -> tuple[tuple[int, int], bytes]:
    """The size of the picture, and a smaller one where `size` is not 0. Raises whatever the decoder raises."""
    from PIL import Image, ImageOps  # after the limits: the decoders are what is limited

    Image.MAX_IMAGE_PIXELS = pixels_max
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
        if picture.width * picture.height > pixels_max:
            raise ValueError("too many pixels")
        if not size:
            return picture.size, b""
        picture.draft("RGB", (size, size))
        turned = ImageOps.exif_transpose(picture)
        turned.thumbnail((size, size))
        out = io.BytesIO()
        (turned if turned.mode in ("RGB", "RGBA") else turned.convert("RGBA")).save(out, "WEBP", quality=80)
        return picture.size, out.getvalue()


def main(words: list[str]) -> int:
    size, pixels_max, memory_bytes, cpu_s = map(int, words)
    limit(memory_bytes, cpu_s)
    try:
        (width, height), small = look(sys.stdin.buffer.read(), size, pixels_max)
    except ImportError:
        return 3
    except Exception:
        return 1
    sys.stdout.buffer.write(json.dumps([width, height]).encode() + b"\n" + small)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
