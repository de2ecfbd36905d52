from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from tests.support.messaging.sharing import PIXEL, Sharing, sharing
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.bounds import FILE_PART_BYTES, UPLOAD_S
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.messaging.files.record import COLLECTION, root_of
from tidings.stores.tables.records import Put, of_conversation


def at_s3(s3: S3Server, prefix: str) -> AbstractAsyncContextManager[Sharing]:
    return sharing(Settings(blobs=s3.url(f"sweep/{prefix}")))


async def half_uploaded(shared: Sharing) -> str:
    """An upload in two parts, and one of them came."""
    data = bytes(FILE_PART_BYTES + 1)
    begun = await shared.begin(data)
    await shared.send_parts({"parts": begun["parts"][:1]}, data)
    file_id: str = begun["file_id"]
    return file_id


async def unfinished(shared: Sharing) -> list[str]:
    """The files whose parts are in S3, and which are not finished."""
    root = root_of(await shared.core.tables.archive.id())
    return [name.split("/")[-2] async for name in shared.core.files.unfinished(root)]


class Refusing:
    """The bytes of files in a store that does not abort the uploads of these files, and lists none."""

    def __init__(self, files: Any, kept: set[str]) -> None:
        self._files = files
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    async def unfinished(self, folder: str) -> AsyncIterator[str]:
        raise Unavailable("blobs: AccessDenied", store="blobs", op="list")
        yield ""

    async def abandon(self, folder: str) -> None:
        if folder.rpartition("/")[2] in self._kept:
            raise Unavailable("blobs: AccessDenied", store="blobs", op="list")


class RefusingBlobs:
    """Blobs that delete no object of some files, and list none of others."""

    def __init__(self, blobs: Any, undeleted: set[str], unlisted: set[str]) -> None:
        self._blobs = blobs
        self._undeleted = undeleted
        self._unlisted = unlisted

    async def delete(self, name: str) -> None:
        if name.split("/")[-2] in self._undeleted:
            raise Unavailable("blobs: AccessDenied", store="blobs", op="delete")
        await self._blobs.delete(name)

    async def list(self, folder: str) -> AsyncIterator[Any]:
        if folder.rpartition("/")[2] in self._unlisted:
            raise Unavailable("blobs: AccessDenied", store="blobs", op="list")
        async for chunk in self._blobs.list(folder):
            yield chunk


@pytest.fixture
def tomorrow(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calling it makes it tomorrow on the node's wall clock."""
    return to_tomorrow(shared, monkeypatch)


def to_tomorrow(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = shared.core.clock
    now_ms = clock.now_ms

    def begin() -> None:
        monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + UPLOAD_S * 1000 + 1, raising=False)

    return begin


async def names(shared: Sharing) -> set[str]:
    owner = of_conversation(shared.conversation_id)
    return {record.name for record in await shared.core.tables.records.page(owner, COLLECTION, limit=100)}


async def test_an_upload_that_is_not_sent_within_a_day_is_removed(shared: Sharing, tomorrow: Any) -> None:
    half = await shared.begin(PIXEL)
    await shared.send_parts(half, PIXEL)
    await shared.upload()
    kept = await shared.upload()
    await shared.say(kept)
    await shared.sweep()
    assert len(shared.objects()) == 3
    tomorrow()
    await shared.sweep()
    assert await names(shared) == {kept}
    assert [path.parent.name for path in shared.objects()] == [kept]


async def test_a_sweep_and_a_send_at_the_same_moment_leave_a_message_with_its_file_or_neither(
    shared: Sharing, tomorrow: Any
) -> None:
    file_ids = [await shared.upload() for _ in range(6)]
    tomorrow()
    sends = (shared.say(file_id, message_id=file_id) for file_id in file_ids)
    _, *answers = await asyncio.gather(shared.sweep(), *sends)
    sent = {file_id for file_id, (status, _) in zip(file_ids, answers, strict=True) if status == 201}
    await shared.sweep()
    assert await names(shared) == sent
    assert {path.parent.name for path in shared.objects()} == sent


async def test_the_bytes_of_a_deleted_message_are_gone_after_the_next_pass(shared: Sharing) -> None:
    file_id = await shared.upload()
    await shared.say(file_id)
    await shared.ask("DELETE", "/messages/1")
    await shared.sweep()
    assert shared.objects() == [] and await names(shared) == set()


async def test_the_bytes_of_a_deleted_conversation_are_gone_after_the_next_pass(shared: Sharing) -> None:
    await shared.say(await shared.upload())
    await shared.upload()
    assert (await shared.ask("DELETE", ""))[0] in (200, 204)
    await shared.sweep()
    assert shared.objects() == []


async def test_an_object_without_a_record_is_an_orphan(shared: Sharing) -> None:
    kept, lost = await shared.upload(), await shared.upload()
    await shared.say(kept)
    await shared.core.tables.records.put([Put(of_conversation(shared.conversation_id), COLLECTION, lost, None)])
    await shared.sweep()
    assert [path.parent.name for path in shared.objects()] == [kept]


async def test_the_files_of_messages_below_the_floor_go(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    below, above = await shared.upload(), await shared.upload()
    await shared.say(below)
    await shared.say(above)
    conversations = shared.core.tables.conversations
    heads = await conversations.heads([shared.conversation_id])
    raised = {id_: msgspec.structs.replace(head, floor_seq=1) for id_, head in heads.items()}

    async def with_floor(ids: object) -> Any:
        return raised

    monkeypatch.setattr(shared.core.cold.file_sweep.conversations, "heads", with_floor)
    await shared.core.cold.file_sweep.all()
    await shared.core.cold.file_sweep.due()
    assert [path.parent.name for path in shared.objects()] == [above]


async def test_the_parts_of_an_upload_to_s3_go_when_its_day_is_over(
    s3: S3Server, s3_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_s3(s3, "day") as shared:
        file_id = await half_uploaded(shared)
        await shared.sweep()
        assert await unfinished(shared) == [file_id]
        to_tomorrow(shared, monkeypatch)()
        await shared.sweep()
        assert await unfinished(shared) == [] and await names(shared) == set()


async def test_a_file_whose_parts_the_store_keeps_holds_up_no_other(
    shared: Sharing, tomorrow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy of the bucket is from before uploads in parts: the store refuses to list and to abort them."""
    monkeypatch.setattr("tidings.bounds.FILES_SWEPT", 1)
    file_ids = [await shared.upload() for _ in range(3)]
    files, kept = shared.core.cold.file_sweep.files, set(file_ids[:2])
    monkeypatch.setattr(shared.core.cold.file_sweep, "files", Refusing(files, kept))
    tomorrow()
    for _ in range(2):
        await shared.sweep()
        assert shared.objects() == [] and await names(shared) == kept
    kept.clear()
    now_ms = shared.core.clock.now_ms
    monkeypatch.setattr(shared.core.clock, "now_ms", lambda: now_ms() + 3_600_001)
    await shared.sweep()
    assert await names(shared) == set()


async def test_a_file_whose_bytes_the_store_keeps_holds_up_no_other(
    shared: Sharing, tomorrow: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidings.bounds.FILES_SWEPT", 1)
    file_ids = [await shared.upload() for _ in range(4)]
    sweep, undeleted, unlisted = shared.core.cold.file_sweep, set(file_ids[:1]), set(file_ids[1:2])
    monkeypatch.setattr(sweep, "blobs", RefusingBlobs(sweep.blobs, undeleted, unlisted))
    tomorrow()
    await sweep.due()
    assert await names(shared) == undeleted | unlisted
    assert {path.parent.name for path in shared.objects()} == undeleted | unlisted
    causes = [vars(record)["cause"] for record in caplog.records if hasattr(record, "object")]
    assert causes == ["blobs: AccessDenied"] * 2
    caplog.clear()
    await sweep.due()
    assert not any(hasattr(record, "object") for record in caplog.records), "they were not put off"
    undeleted.clear()
    unlisted.clear()
    now_ms = shared.core.clock.now_ms
    monkeypatch.setattr(shared.core.clock, "now_ms", lambda: now_ms() + 3_600_001)
    await sweep.due()
    assert await names(shared) == set() and shared.objects() == []


async def test_a_listing_removes_what_the_store_refused_before(
    shared: Sharing, tomorrow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ids = [await shared.upload() for _ in range(2)]
    sweep, refused = shared.core.cold.file_sweep, set(file_ids)
    monkeypatch.setattr(sweep, "blobs", RefusingBlobs(sweep.blobs, refused, set()))
    tomorrow()
    await sweep.due()
    refused.discard(file_ids[0])
    await sweep.all()
    assert await names(shared) == refused


async def test_a_pass_ends_when_the_store_has_refused_for_too_long(
    shared: Sharing, tomorrow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ids = {await shared.upload() for _ in range(3)}
    sweep = shared.core.cold.file_sweep
    monkeypatch.setattr(sweep, "blobs", RefusingBlobs(sweep.blobs, set(file_ids), set()))
    monkeypatch.setattr("tidings.messaging.files.sweep._REFUSED_S", 0.0)
    tomorrow()
    for waiting in (2, 1, 0, 0):  # one file a pass: those that were refused stand behind the others
        await sweep.due()
        until_ms = shared.core.clock.now_ms()
        assert len(await shared.core.tables.records.due(COLLECTION, until_ms=until_ms, limit=10)) == waiting


async def test_an_orphan_that_the_store_keeps_holds_up_no_other(
    shared: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ids = [await shared.upload() for _ in range(3)]
    owner, sweep = of_conversation(shared.conversation_id), shared.core.cold.file_sweep
    await shared.core.tables.records.put([Put(owner, COLLECTION, one, None) for one in file_ids])
    refused = {file_ids[1]}
    monkeypatch.setattr(sweep, "blobs", RefusingBlobs(sweep.blobs, refused, set()))
    assert not await sweep.forget(shared.conversation_id)
    assert {path.parent.name for path in shared.objects()} == refused
    refused.clear()
    assert await sweep.forget(shared.conversation_id)
    assert shared.objects() == []


async def test_the_parts_of_an_upload_to_s3_go_with_its_conversation(s3: S3Server, s3_credentials: None) -> None:
    async with at_s3(s3, "conversation") as shared:
        await half_uploaded(shared)
        assert (await shared.ask("DELETE", ""))[0] in (200, 204)
        await shared.sweep()
        assert await unfinished(shared) == []


async def test_parts_in_s3_without_a_record_are_orphans(s3: S3Server, s3_credentials: None) -> None:
    async with at_s3(s3, "orphans") as shared:
        kept, lost = await half_uploaded(shared), await half_uploaded(shared)
        await shared.core.tables.records.put([Put(of_conversation(shared.conversation_id), COLLECTION, lost, None)])
        await shared.core.cold.file_sweep.all()
        assert await unfinished(shared) == [kept]


async def test_the_days_of_uploads_are_forgotten(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    await shared.upload()
    clock = shared.core.clock
    now_ms = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + 3 * 86_400_000, raising=False)
    await shared.sweep()
    left = await shared.core.tables.records.due("files_days", until_ms=1 << 50, limit=10)
    assert left == []
