from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from tidings.messaging.files import thumbnailer

Image = pytest.importorskip("PIL.Image", reason="the extra `thumbnails` is not installed")
GENEROUS = (50_000_000, 1024**3, 10)


def run(data: bytes, *words: int) -> tuple[int, bytes]:
    command = [sys.executable, "-I", thumbnailer.__file__, *map(str, words)]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return done.returncode, done.stdout


def picture(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "PNG")
    return out.getvalue()


def test_it_tells_the_size_alone_or_with_a_small_picture() -> None:
    code, said = run(picture(300, 100), 0, *GENEROUS)
    assert code == 0 and json.loads(said) == [300, 100]
    code, said = run(picture(300, 100), 160, *GENEROUS)
    line, _, small = said.partition(b"\n")
    assert code == 0 and json.loads(line) == [300, 100]
    assert Image.open(io.BytesIO(small)).size == (160, 53)


@pytest.mark.parametrize("limits", [(29_999, 1024**3, 10), (50_000_000, 60 * 1024**2, 10)], ids=["pixels", "memory"])
def test_a_picture_above_a_limit_ends_the_process(limits: tuple[int, int, int]) -> None:
    code, said = run(picture(4_000, 4_000), 160, *limits)
    assert code != 0 and said == b""
