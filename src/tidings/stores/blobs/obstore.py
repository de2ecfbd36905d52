"""Blobs through obstore: a folder, S3 and compatible stores, and the stores of Google and Azure. The URL chooses.

Google's store is asked in S3's protocol where the node has an HMAC key for it, and in its own otherwise.

An object is durable before `put` answers, and never replaces another. For that, a folder needs more than obstore does:
a private file (0600) is written and synced aside, linked to its name, and the folder is synced too. Credentials come
from where each cloud's tools look for them (environment, files, the machine's role), never from the URL.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Missing, StoreError, Unavailable
from tidings.stores.aws.keys import FixedKey, google_key
from tidings.stores.aws.profiles import Profile, open_profile
from tidings.stores.blobs.ports import Blob, Blobs

T = TypeVar("T")
_STORES = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_GOOGLE = {
    "endpoint": "https://storage.googleapis.com",
    "region": "auto",
    "conditional_put": "disabled",  # this store has conditions of its own, which S3's protocol cannot say
}
_LIST_CHUNK = 500  # objects handed over at a time


def open_blobs(url: str, clock: Clock) -> Blobs:
    """file:///path, s3://bucket/prefix?endpoint=http://host:port&region=…, gs://bucket/prefix, az://container/prefix.

    Nothing is asked of the store yet, and no folder is made.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderBlobs(Path(unquote(parts.path)), clock)
    return ObjectBlobs(open_store(url))


def open_store(url: str) -> Any:
    """The store of an object store's URL, as the library has it."""
    parts = urlsplit(url)
    query, keys = dict(parse_qsl(parts.query)), _keys(parts.scheme)
    if parts.scheme == "gs" and keys is not None:
        parts, query = parts._replace(scheme="s3"), {**_GOOGLE, **query}
    if parts.scheme == "s3":
        query = {"disable_bulk_delete": "true", **query}  # one object at a time is deleted: every store can do it
    options: Any = {
        "timeout": timedelta(seconds=bounds.BLOBS_REQUEST_S),
        "connect_timeout": timedelta(seconds=bounds.BLOBS_CONNECT_S),
        "allow_http": query.get("endpoint", "").startswith("http://"),
    }
    retries: Any = {"max_retries": bounds.BLOBS_RETRIES, "retry_timeout": timedelta(seconds=bounds.BLOBS_DEADLINE_S)}
    given = {"credential_provider": _provider(keys)} if keys is not None else {}
    try:
        store = _STORES[parts.scheme].from_url(  # type: ignore[attr-defined]  # a union of three classes
            parts._replace(query="").geturl(), config=query, client_options=options, retry_config=retries, **given
        )
    except (exceptions.BaseError, ValueError) as error:
        raise Unavailable(f"blobs: {_first_line(error)}", store="blobs", op="open") from None
    return store


def _keys(scheme: str) -> Profile | FixedKey | None:
    """The AWS profile of the process where nothing nearer has keys, or the HMAC key of Google's store."""
    sources: dict[str, Callable[[], Profile | FixedKey | None]] = {"s3": open_profile, "gs": google_key}
    return sources[scheme]() if scheme in sources else None


def _provider(source: Profile | FixedKey) -> Callable[[], Awaitable[dict[str, Any]]]:
    """The keys of a source, as the library asks for them."""

    async def keys() -> dict[str, Any]:
        found = await source.key()
        token = {"token": found.token} if found.token else {}
        return {"access_key_id": found.id, "secret_access_key": found.secret, "expires_at": found.expires, **token}

    return keys


class ObjectBlobs:
    """Any store of obstore."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def put(self, name: str, data: bytes) -> bool:
        try:
            await self._store.put_async(name, data, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        except (exceptions.NotSupportedError, NotImplementedError):
            # A store without conditional puts. A name carries a digest of the data: it can only be put over itself.
            await asked("put", self._store.put_async(name, data, use_multipart=False))
        except (exceptions.BaseError, OSError) as error:  # there is nothing to miss here, unless it is the bucket
            raise Unavailable(f"blobs: {_first_line(error)}", store="blobs", op="put") from None
        return True

    async def get(self, name: str) -> bytes:
        found = await asked("get", self._store.get_async(name))
        return bytes(await asked("get", found.bytes_async()))

    async def delete(self, name: str) -> None:
        with suppress(Missing):
            await asked("delete", self._store.delete_async(name))

    async def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        try:
            async for chunk in self._store.list(folder, chunk_size=_LIST_CHUNK):
                yield [_blob(meta) for meta in chunk]
        except (exceptions.BaseError, OSError) as error:
            raise as_store_error("list", error) from None


class FolderBlobs(ObjectBlobs):
    """A folder (0700). Half-written files are in `.new` beside the objects and are cleared when they are old."""

    def __init__(self, root: Path, clock: Clock) -> None:
        super().__init__(None)
        self._root = root
        self._clock = clock

    async def put(self, name: str, data: bytes) -> bool:
        try:
            return await asyncio.to_thread(self._put, name, data)
        except OSError as error:
            raise Unavailable(f"blobs: {_first_line(error)}", store="blobs", op="put") from None

    async def get(self, name: str) -> bytes:
        self._open()
        return await super().get(name)

    async def delete(self, name: str) -> None:
        self._open()
        await super().delete(name)
        await asyncio.to_thread(self._tidy, (self._root / name).parent)

    async def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        self._open()
        await asyncio.to_thread(self._clear_new)
        async for chunk in super().list(folder):
            yield chunk

    def _open(self) -> None:
        """Make the folder at the first use: an installation without an archive has none."""
        if self._store is None:
            make_private(self._root)
            self._store = LocalStore(self._root)

    def _put(self, name: str, data: bytes) -> bool:
        path, new = self._root / name, self._root / ".new" / self._clock.random_id(8)
        for folder in (new.parent, path.parent):
            make_private(folder)
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(file, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            return _link(new, path)
        finally:
            new.unlink(missing_ok=True)
            for folder in (path.parent, *path.parent.relative_to(self._root).parents):
                sync(self._root / folder)

    def _clear_new(self) -> None:
        """Remove the files of a killed process: texts must not outlive their messages."""
        old_s = self._clock.now_ms() / 1000 - bounds.BLOBS_DEADLINE_S
        for file in (self._root / ".new").glob("*"):
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < old_s:
                    file.unlink()

    def _tidy(self, folder: Path) -> None:
        """Sync the deletion, and remove the folder if it is empty."""
        with suppress(OSError):  # not empty, or gone already
            sync(folder)
            folder.rmdir()


def _link(new: Path, path: Path) -> bool:
    """False: an object of this name exists. Raises FileNotFoundError: the new file was cleared away as an old one."""
    while True:
        try:
            os.link(new, path)
            return True
        except FileExistsError:
            return False
        except FileNotFoundError:
            if not new.exists():
                raise
            make_private(path.parent)  # whoever deleted the last object there took the folder away


def make_private(folder: Path) -> None:
    """Make the missing folders of the path, durably."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync(folder.parent)


def sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


async def asked(op: str, work: Awaitable[T]) -> T:
    try:
        return await work
    except (exceptions.BaseError, OSError) as error:
        raise as_store_error(op, error) from None


def as_store_error(op: str, error: Exception) -> StoreError:
    if isinstance(error, FileNotFoundError):
        return Missing(_first_line(error), store="blobs", op=op)
    return Unavailable(f"blobs: {_first_line(error)}", store="blobs", op=op)


def _first_line(error: Exception) -> str:
    """The first line of an error. The later lines concern only the library itself."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _blob(meta: Any) -> Blob:
    return Blob(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))
