"""REST bodies and answers of uploads and files: one struct each."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.bounds import FILE_NAME_CHARS_MAX, FILE_TYPE_CHARS_MAX
from tidings.protocol.bodies import FileBody, RequestBody
from tidings.protocol.types import INTEGER_MAX, Cursor, Limit, is_name, shaped

_MIME = shaped(
    r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?![\s\S])",
    "a media type without parameters, such as image/png",
    max_length=FILE_TYPE_CHARS_MAX,
)
_SHA256 = shaped(r"^[0-9a-f]{64}(?![\s\S])", "the SHA-256 of the file, 64 of 0-9 a-f")
_BLURHASH = shaped(r"^[!-~]{6,100}(?![\s\S])", "a blurhash, 6-100 printable characters of ASCII without a space")
_PIXELS_MAX = 1_000_000  # of one side, as an uploader may claim it

Pixels = Annotated[int, Meta(ge=1, le=_PIXELS_MAX)]
ThumbnailSize = Literal[160, 320, 640, 1024]


class NewUpload(RequestBody, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=FILE_NAME_CHARS_MAX)]
    mime: Annotated[str, _MIME]
    bytes: Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
    sha256: Annotated[str, _SHA256] | None = None
    width: Pixels | None = None
    height: Pixels | None = None
    blurhash: Annotated[str, _BLURHASH] | None = None

    def __post_init__(self) -> None:
        if not is_name(self.name) or "/" in self.name or "\\" in self.name:
            raise ValueError("`name` must be a file name that can be shown, without a path")


class PartBody(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """A request that sends the bytes from `from` up to, and without, `to`. A URL without a host is of this server."""

    method: Literal["PUT"]
    url: str
    headers: dict[str, str]
    from_: int
    to: int


class UploadBody(msgspec.Struct, frozen=True):
    file_id: str
    parts: list[PartBody]
    expires_at: int


class FileQuery(msgspec.Struct, frozen=True):
    download: Literal[0, 1] = 0  # 1: the browser saves it, whatever it is
    link: Literal[0, 1] = 0  # 1: 200 with the URL in the body, for clients that cannot read a redirect


class LinkBody(msgspec.Struct, frozen=True):
    url: str
    expires_at: int


class FilesQuery(msgspec.Struct, frozen=True):
    kind: Literal["image", "file"] | None = None
    limit: Limit = 20
    cursor: Cursor | None = None


class SentFileBody(FileBody, frozen=True, kw_only=True):
    seq: int  # of its message
    sender_id: str


class FilesBody(msgspec.Struct, frozen=True):
    """Newest first; a null cursor means that there are no more. A page may be shorter than its limit."""

    files: list[SentFileBody]
    next_cursor: str | None


class ThumbnailQuery(msgspec.Struct, frozen=True):
    size: ThumbnailSize = 320
    link: Literal[0, 1] = 0
