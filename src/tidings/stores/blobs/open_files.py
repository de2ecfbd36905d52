"""Opens the bytes of files at the URL of the blobs: in a folder through the node, elsewhere past it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidings.clock import Clock
from tidings.stores.blobs.folder_files import FolderFiles
from tidings.stores.blobs.obstore import open_store
from tidings.stores.blobs.ports import FileBytes
from tidings.stores.blobs.signed_files import SignedFiles

_UPLOAD_HEADERS = {"az": {"x-ms-blob-type": "BlockBlob"}}  # Azure refuses a PUT that does not say what it makes


def open_files(url: str, clock: Clock) -> FileBytes:
    """Nothing is asked of the store yet."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderFiles(Path(unquote(parts.path)), clock)
    return SignedFiles(open_store(url), _UPLOAD_HEADERS.get(parts.scheme, {}))
