"""Opens the bytes of files at the URL of the blobs: in a folder through the node, elsewhere past it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from tidings.clock import Clock
from tidings.stores.aws.keys import google_key, open_any_keys
from tidings.stores.blobs.azure_files import AzureFiles
from tidings.stores.blobs.folder_files import FolderFiles
from tidings.stores.blobs.obstore import open_store
from tidings.stores.blobs.ports import FileBytes
from tidings.stores.blobs.s3_files import S3Files
from tidings.stores.blobs.signed_files import SignedFiles


def open_files(url: str, clock: Clock) -> FileBytes:
    """Nothing is asked of the store yet."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderFiles(Path(unquote(parts.path)), clock)
    store = open_store(url)
    if parts.scheme == "az":
        return AzureFiles(store, clock)
    keys = google_key() if parts.scheme == "gs" else open_any_keys(_region(parts.query), clock)
    return SignedFiles(store, {}) if keys is None else S3Files(store, keys, clock)


def _region(query: str) -> str:
    """The region whose STS gives keys. The library knows the one of the bucket."""
    return dict(parse_qsl(query)).get("region") or os.environ.get("AWS_REGION") or "us-east-1"
