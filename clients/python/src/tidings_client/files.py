"""Files: announce an upload, send its parts, complete it; and read the files of others.

A part that fails is sent again, at most once more than the network broke. A file on the disk is read part by part, so a
large one needs little memory.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from tidings_client.bounds import CHUNK_BYTES, PART_S, TRIES_MAX
from tidings_client.clock import Clock
from tidings_client.connection.http import Answer
from tidings_client.connection.session import Backoff
from tidings_client.errors import BadRequest, Disconnected, Problem
from tidings_client.forms import path_of
from tidings_client.rest import Rest
from tidings_client.values import File

OnProgress = Callable[[int, int], None]  # bytes that were sent, and all bytes


class _NewUpload(msgspec.Struct, frozen=True):
    name: str
    mime: str
    bytes: int


class _Part(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    url: str
    headers: dict[str, str]
    from_: int
    to: int


class _Upload(msgspec.Struct, frozen=True):
    file_id: str
    parts: list[_Part]


class _Link(msgspec.Struct, frozen=True):
    url: str


class SentFile(File, frozen=True, kw_only=True):
    """A file with its place: the seq of its message, and who sent it."""

    seq: int
    sender_id: str


class FilesPage(msgspec.Struct, frozen=True):
    files: list[SentFile]
    next_cursor: str | None


def checked_paths(paths: Sequence[str | Path]) -> list[str]:
    """Return a list of paths. One path is refused: a string is a sequence of its letters."""
    if isinstance(paths, str | Path):
        raise BadRequest("files is a list of paths, not one path")
    return [os.fspath(path) for path in paths]


async def upload(
    rest: Rest, clock: Clock, conversation_id: str, path: str | Path, on_progress: OnProgress | None = None
) -> str:
    """Upload a file of the disk. Returns its file_id, for a message of this user. Raises Problem, Disconnected."""
    path = Path(path)
    try:
        size = (await asyncio.to_thread(path.stat)).st_size
    except OSError as error:
        raise _unreadable(path, error) from None
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    uploads = path_of("conversations", conversation_id, "uploads")
    begun = await rest.send("POST", uploads, _Upload, _NewUpload(path.name, mime, size), is_repeatable=True)
    for part in begun.parts:
        await _send_part(rest, clock, path, part)
        if on_progress is not None:
            on_progress(part.to, size)
    done = path_of("conversations", conversation_id, "uploads", begun.file_id, "complete")
    await rest.send("POST", done, File, is_repeatable=True)
    return begun.file_id


async def _send_part(rest: Rest, clock: Clock, path: Path, part: _Part) -> None:
    backoff = Backoff(clock)
    for tries in range(1, TRIES_MAX + 1):
        try:
            headers = {**part.headers, "Content-Length": str(part.to - part.from_)}
            answer = await rest.http.request(
                "PUT", part.url, headers=headers, content=_chunks(path, part), quiet_s=PART_S
            )
            if answer.is_success:
                return
            if not _is_temporary(answer):
                said = answer.content[:200].decode(errors="replace")
                raise BadRequest(f"a part of {path.name} was refused: {answer.status} {said}")
        except Disconnected as error:
            if tries == TRIES_MAX:
                raise Disconnected(f"a part of {path.name}: {error}") from None
        except OSError as error:  # of the disk: those of the network are Disconnected
            raise _unreadable(path, error) from None
        await asyncio.sleep(backoff.next_s(None))
    raise Disconnected(f"a part of {path.name} was not taken")


def _unreadable(path: Path, error: OSError) -> BadRequest:
    return BadRequest(f"the file {path} cannot be read: {error.strerror or error}")


def _is_temporary(answer: Answer) -> bool:
    """S3 says 400 where others say 408: the bytes came too slowly."""
    return answer.status >= 500 or answer.status in (408, 429) or b"RequestTimeout" in answer.content


async def _chunks(path: Path, part: _Part) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        await asyncio.to_thread(file.seek, part.from_)
        left = part.to - part.from_
        while left and (chunk := await asyncio.to_thread(file.read, min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk
        if left:  # the other side would wait for the rest
            raise OSError("it has become shorter")


async def page_of_files(
    rest: Rest, conversation_id: str, kind: str | None, limit: int, cursor: str | None
) -> FilesPage:
    asked = {"kind": kind, "limit": str(limit), "cursor": cursor}
    query = {name: value for name, value in asked.items() if value is not None}
    path = path_of("conversations", conversation_id, "files")
    return await rest.send("GET", path, FilesPage, query=query, is_repeatable=True)


async def link(rest: Rest, conversation_id: str, file_id: str, *, download: bool = False) -> str:
    """A URL of the file that lives a minute and needs no token. `download`: a browser saves it."""
    path = path_of("conversations", conversation_id, "files", file_id)
    found = await rest.get(path, _Link, link=1, download=1 if download else None)
    return rest.http.address(found.url)


async def download(rest: Rest, conversation_id: str, file_id: str, to: str | Path) -> None:
    """Write the file to `to`. Raises Problem, Disconnected."""
    url = await link(rest, conversation_id, file_id)
    try:
        async with rest.http.stream("GET", url, headers={}, quiet_s=PART_S) as answer:
            if not answer.is_success:
                raise Problem(f"the file could not be read: status {answer.status}")
            with await asyncio.to_thread(Path(to).open, "wb") as out:
                async for chunk in answer.chunks:
                    await asyncio.to_thread(out.write, chunk)
    except Disconnected as error:
        raise Disconnected(f"GET {file_id}: {error}") from None
