"""Exporting: what leaves comes back as it was, with texts of the cold tier, files, reactions and checksums."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.config.settings import Archive, Settings
from tidings.errors import NotFound
from tidings.messaging.files.uploads import UPLOAD_PATH, NewFile
from tidings.messaging.transfer.packing import to_folder
from tidings.messaging.transfer.sources.jsonl import JsonLines
from tidings.model import Content, ContentPatch, File, User
from tidings.node import graph
from tidings.node.graph import Core


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Everything is archived at once."""
    return dataclasses.replace(settings, archive=Archive(after_days=0))


BYTES = b"the bytes of a file" * 100


async def upload(core: Core, user_id: str, conversation_id: str, data: bytes = BYTES) -> str:
    """A complete upload: its file_id."""

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    begun = await core.filing.uploads.begin(user_id, conversation_id, NewFile("notes.txt", "text/plain", len(data)))
    for _, signed in begun.parts:
        await core.filing.uploads.write(core.filing.uploads.ticket(signed.url.removeprefix(UPLOAD_PATH)), chunks())
    await core.filing.uploads.complete(user_id, conversation_id, begun.file_id)
    return begun.file_id


async def fill(a: FaultyNode, group: str) -> str:
    """A group with all that an export must keep. Returns the id of its file."""
    await a.core.directory.introduce(User(user_id="alice", name="Alice"))
    await a.send("alice", group, "m1", "first words")
    await a.send("bob", group, "m2", "before the edit")
    await a.core.rewrites.edit("bob", group, 2, ContentPatch("after the edit"))
    await a.send("carol", group, "m3", "gone words")
    await a.core.rewrites.delete("carol", group, 4)
    file_id = await upload(a.core, "alice", group)
    await a.core.sends.send("alice", group, "m4", Content("with a file", files=(File(file_id),)))
    await a.core.sends.send("alice", group, "m5", Content("hello", {"a": 1}, mentions=("bob",), reply_to=1))
    await a.core.sends.send("alice", group, "m6", Content("a reply", thread_seq=1))
    await a.core.reactions.react("bob", group, 1, "👍", is_on=True)
    await a.core.pins.set("alice", group, 1, is_on=True)
    await a.core.directory.remove("alice", group, "carol")
    await a.core.rules.change("alice", group, {"visibility": "listed"})
    assert (await a.core.cold.archiving.run()).archived.messages >= 4
    return file_id


@asynccontextmanager
async def empty(settings: Settings, folder: Path) -> AsyncIterator[Core]:
    """Other stores, with nothing in them."""
    other = dataclasses.replace(
        settings, data=folder, tables=f"sqlite://{folder}/tidings.db", keyspace=settings.keyspace + "other."
    )
    async with graph.open_core(other) as core:
        yield core


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "export.jsonl").read_text("utf-8").splitlines()]


async def test_an_export_that_is_imported_elsewhere_is_exported_again_as_the_same(
    a: FaultyNode, group: str, settings: Settings, tmp_path: Path
) -> None:
    file_id = await fill(a, group)
    await to_folder(a.core.exporting.all(), tmp_path / "first")
    async with empty(settings, tmp_path / "other") as other:
        done = await other.importing.run(JsonLines(tmp_path / "first", {}))
        assert (done.conversations, done.files) == (1, 1)
        again = await other.importing.run(JsonLines(tmp_path / "first", {}))
        assert (again.messages, again.known, again.files) == (0, done.messages, 0)
        await to_folder(other.exporting.all(), tmp_path / "second")
        assert lines(tmp_path / "first") == lines(tmp_path / "second")
        assert (tmp_path / "second" / "files" / file_id).read_bytes() == BYTES
        page = await other.history.page("bob", group, limit=100)
        assert page.beside[1].reactions["👍"].count == 1 and page.beside[1].is_pinned
        assert (await other.inbox.page("bob", limit=10, cursor=None)).totals.total_unread == 0
        (hit,), _ = await other.joining.listed("", "", 10)
        assert hit.conversation_id == group


async def test_the_manifest_has_the_checksum_of_every_piece(a: FaultyNode, group: str, tmp_path: Path) -> None:
    await fill(a, group)
    await to_folder(await a.core.exporting.conversation(group), tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["of"] == f"conversation {group}" and manifest["missing"] == []
    assert manifest["pieces"][0]["name"] == "export.jsonl" and len(manifest["pieces"]) == 2
    for piece in manifest["pieces"]:
        data = (tmp_path / "out" / piece["name"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (piece["bytes"], piece["sha256"])
    assert manifest["lines"]["conversation"] == 1
    found = lines(tmp_path / "out")
    texts = [line.get("text") for line in found if line["type"] == "message"]
    assert "first words" in texts and "after the edit" in texts
    assert "before the edit" not in texts and "gone words" not in texts
    assert {line["user_id"] for line in found if line["type"] == "user"} == {"alice"}
    with pytest.raises(NotFound):
        await a.core.exporting.conversation("nothing")


async def test_the_export_of_a_person_holds_their_words_alone(a: FaultyNode, group: str, tmp_path: Path) -> None:
    await fill(a, group)
    await a.core.drafts.put("bob", group, "a draft of bob", 0)
    await to_folder(a.core.exporting.user("bob", is_everywhere=False), tmp_path / "bob")
    found = lines(tmp_path / "bob")
    assert [line["text"] for line in found if line["type"] == "message"] == ["after the edit"]
    assert [line["key"] for line in found if line["type"] == "reaction"] == ["👍"]
    assert [line["value"] for line in found if line["type"] == "own_record"] == ["a draft of bob"]
    assert "alice" not in (tmp_path / "bob" / "export.jsonl").read_text("utf-8")
    await to_folder(a.core.exporting.user("carol", is_everywhere=False), tmp_path / "carol")
    assert [line["type"] for line in lines(tmp_path / "carol")] == ["user"]
    await to_folder(a.core.exporting.user("carol", is_everywhere=True), tmp_path / "everywhere")
    assert [line["type"] for line in lines(tmp_path / "everywhere")] == ["user", "conversation", "message"]


async def test_a_file_whose_bytes_are_gone_is_named_as_missing(a: FaultyNode, group: str, tmp_path: Path) -> None:
    file_id = await fill(a, group)
    for path in (tmp_path / "blobs").glob(f"*.files/**/{file_id}/*"):
        path.unlink()
    await to_folder(a.core.exporting.all(), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["missing"] == [file_id]
