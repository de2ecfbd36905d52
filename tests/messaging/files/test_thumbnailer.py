from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from tests.support.messaging.bombs import BOMBS
from tidings.messaging.files import bounds, thumbnailer

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


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_a_bomb_costs_the_process_no_more_than_its_limits(data: bytes) -> None:
    """The kernel's own account of this process: its peak of memory and its processor time."""
    limits = (bounds.THUMBNAIL_PIXELS_MAX, bounds.THUMBNAIL_MEMORY_BYTES, bounds.THUMBNAIL_CPU_S)
    process = subprocess.Popen(
        [sys.executable, "-I", thumbnailer.__file__, "320", *map(str, limits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin as out:
        out.write(data)
    with process.stdout as said:
        assert said.read() == b""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode != 0
    assert used.ru_maxrss * 1024 <= bounds.THUMBNAIL_MEMORY_BYTES
    assert used.ru_utime + used.ru_stime <= bounds.THUMBNAIL_CPU_S + 1
