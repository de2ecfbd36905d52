from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.messaging.sharing import sharing
from tests.support.servers.azurite import azurite as azurite
from tests.support.servers.cutting_store import KINDS, cutting
from tests.support.servers.http_server import Heard, serve
from tests.support.servers.moto_server import s3 as s3
from tidings.config.settings import Settings
from tidings_client import Client, FileDrafts, Server
from tidings_client import files as client_files
from tidings_client.connection.session import Backoff
from tidings_client.errors import BadRequest, Disconnected


async def test_a_message_is_sent_with_its_files(tmp_path: Path) -> None:
    photo, note = tmp_path / "a photo.png", tmp_path / "note"
    photo.write_bytes(data := os.urandom(6_000_000))
    note.write_bytes(b"hi")
    seen: list[tuple[int, int]] = []
    async with sharing() as shared:
        alice, bob = await shared.node.client("alice"), await shared.node.client("bob")
        sent = await alice.send(
            shared.conversation_id, "look", files=[photo, str(note)], on_progress=lambda *now: seen.append(now)
        )
        message = next(one for one in [one async for one in bob.history(shared.conversation_id)] if one.seq == sent.seq)
        assert [(file.name, file.mime, file.bytes) for file in message.files] == [
            ("a photo.png", "image/png", 6_000_000),
            ("note", "application/octet-stream", 2),
        ]
        assert seen[-2:] == [(6_000_000, 6_000_000), (2, 2)]
        await bob.download(shared.conversation_id, message.files[0].file_id, tmp_path / "copy")
        assert await asyncio.to_thread((tmp_path / "copy").read_bytes) == data
        listed = await bob.files(shared.conversation_id, kind="image")
        assert [(file.name, file.seq, file.sender_id) for file in listed.files] == [("a photo.png", sent.seq, "alice")]


@pytest.mark.parametrize(("download", "disposition"), [(False, "inline"), (True, "attachment")])
async def test_a_link_shows_or_saves_a_picture(download: bool, disposition: str) -> None:
    async with sharing() as shared:
        file_id = await shared.upload()
        await shared.say(file_id)
        alice = await shared.node.client("alice")
        url = await alice.file_link(shared.conversation_id, file_id, download=download)
        assert (await shared.http.get(url)).headers["content-disposition"].startswith(disposition)


async def test_the_message_behind_a_file_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1_000_000))
    async with sharing() as shared:
        alice = await shared.node.client("alice")
        first, second = await asyncio.gather(
            alice.send(shared.conversation_id, files=[path]), alice.send(shared.conversation_id, "after")
        )
        assert (first.seq, second.seq) == (1, 2)


async def test_a_file_that_is_not_there_refuses_the_message_and_not_the_next(tmp_path: Path) -> None:
    async with sharing() as shared:
        alice = await shared.node.client("alice")
        with pytest.raises(BadRequest, match="cannot be read"):
            await alice.send(shared.conversation_id, files=[tmp_path / "missing"])
        assert (await alice.send(shared.conversation_id, "after")).seq == 1


async def test_a_file_that_cannot_be_opened_refuses_the_message_and_not_the_next(tmp_path: Path) -> None:
    async with sharing() as shared:
        alice = await shared.node.client("alice")
        async with asyncio.timeout(60):
            with pytest.raises(BadRequest, match="cannot be read"):
                await alice.send(shared.conversation_id, files=[tmp_path])  # a folder has a size, and cannot be opened
            assert (await alice.send(shared.conversation_id, "after")).seq == 1


async def test_a_file_that_becomes_shorter_refuses_the_message_and_not_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1_000_000))
    send_part = client_files._send_part

    async def shortened(rest: Any, clock: Any, path: Path, part: Any) -> None:
        await asyncio.to_thread(os.truncate, path, 500_000)
        await send_part(rest, clock, path, part)

    monkeypatch.setattr(client_files, "_send_part", shortened)
    async with sharing() as shared:
        alice = await shared.node.client("alice")
        async with asyncio.timeout(60):  # half the time of one part
            with pytest.raises(BadRequest, match="it has become shorter"):
                await alice.send(shared.conversation_id, files=[path])
            assert (await alice.send(shared.conversation_id, "after")).seq == 1


async def test_a_program_that_ends_in_the_middle_of_an_upload_sends_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    stuck, begun = asyncio.Event(), asyncio.Event()
    send_part = client_files._send_part

    async def never(*given: object) -> None:
        begun.set()
        await stuck.wait()

    async with sharing() as shared:
        token, url = shared.node.token("alice"), shared.node.url
        monkeypatch.setattr(client_files, "_send_part", never)
        first = Client(url, token, device="laptop", drafts=FileDrafts(tmp_path / "drafts"))
        await first.connect()
        sending = asyncio.create_task(first.send(shared.conversation_id, "look", files=[path], message_id="m1"))
        await begun.wait()
        monkeypatch.setattr("tidings_client.client.CLOSE_S", 0.01)
        await first.close()
        assert isinstance((await asyncio.gather(sending, return_exceptions=True))[0], ConnectionError)
        monkeypatch.setattr(client_files, "_send_part", send_part)
        async with Client(url, token, device="laptop", drafts=FileDrafts(tmp_path / "drafts")) as second:
            await second.send(shared.conversation_id, "after")
        assert [message["text"] for message in await shared.messages()] == ["after", "look"]


@pytest.mark.parametrize("cut", [0, 1, 2])
async def test_a_network_that_is_cut_at_any_part_costs_one_part_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data := os.urandom(11_000_000))
    sent: list[int] = []  # where each part that was begun begins
    chunks = client_files._chunks

    async def cut_once(path: Path, part: Any) -> AsyncIterator[bytes]:
        sent.append(part.from_)
        is_cut = len(sent) == cut + 1
        async for chunk in chunks(path, part):
            yield chunk
            if is_cut:
                raise Disconnected("the network is cut")

    async with sharing() as shared:
        alice = await shared.node.client("alice")
        monkeypatch.setattr(client_files, "_chunks", cut_once)
        monkeypatch.setattr(Backoff, "next_s", lambda self, said_s: 0.0)
        message = await alice.send(shared.conversation_id, files=[path])
        assert len(sent) == 4 and len(set(sent)) == 3 and sent.count(sent[cut]) == 2
        (file,) = (await shared.messages())[0]["files"]
        await alice.download(shared.conversation_id, file["file_id"], tmp_path / "copy")
        assert message.seq == 1 and await asyncio.to_thread((tmp_path / "copy").read_bytes) == data


@pytest.mark.parametrize(("kind", "uploads"), KINDS)
async def test_an_upload_to_a_store_that_is_cut_goes_on_with_the_part_that_was_cut(
    kind: str, uploads: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda self, said_s: 0.0)
    path = tmp_path / "file"
    async with cutting(kind, request) as store, sharing(Settings(blobs=store.url)) as shared:
        alice = await shared.node.client("alice")
        for number in range(1, uploads + 1):
            await asyncio.to_thread(path.write_bytes, data := os.urandom(11_000_000))
            message = await alice.send(shared.conversation_id, files=[path])
            (file,) = (await shared.messages())[0]["files"]
            await alice.download(shared.conversation_id, file["file_id"], tmp_path / "copy")
            assert message.seq == number and await asyncio.to_thread((tmp_path / "copy").read_bytes) == data
        store.check(uploads)


async def test_a_part_that_the_store_puts_off_is_sent_again_and_one_that_it_refuses_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda self, said_s: 0.0)
    (path := tmp_path / "file").write_bytes(b"hello")
    heard: list[str] = []
    late = "<Error><Code>RequestTimeout</Code></Error>"
    answers = [(408, ""), (429, "slower"), (400, late), (503, ""), (200, ""), (403, "<Code>AccessDenied</Code>")]

    def answer(request: Heard) -> tuple[int, str]:
        heard.append(request.body)
        return answers[len(heard) - 1]

    async with serve(answer) as url, sharing() as shared:
        alice = await shared.node.client("alice")
        part = client_files._Part(url, {}, 0, 5)
        await client_files._send_part(alice._rest, alice._clock, path, part)
        assert heard == ["hello"] * 5
        with pytest.raises(BadRequest, match="403"):
            await client_files._send_part(alice._rest, alice._clock, path, part)
        assert heard == ["hello"] * 6


async def test_an_abandoned_message_ends_its_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    begun = asyncio.Event()

    async def never(*given: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with sharing() as shared:
        alice = await shared.node.client("alice")
        monkeypatch.setattr(client_files, "_send_part", never)
        sending = asyncio.create_task(alice.send(shared.conversation_id, files=[path], message_id="m1"))
        await begun.wait()
        assert alice.abandon(shared.conversation_id, "m1")
        await asyncio.gather(sending, return_exceptions=True)
        assert (await alice.send(shared.conversation_id, "after")).seq == 1


async def test_one_path_instead_of_a_list_is_refused_at_once() -> None:
    url = "http://127.0.0.1:1"
    async with Server(url, "key") as server:
        for send in (Client(url, "t").send, server.account("alice").send):
            with pytest.raises(BadRequest, match="files is a list of paths"):
                await send("c1", files="photo.png")


async def test_the_teams_own_server_sends_files_too(tmp_path: Path) -> None:
    path = tmp_path / "invoice.pdf"
    path.write_bytes(b"%PDF")
    async with sharing() as shared:
        account = shared.node.server().account("alice")
        sent = await account.send(shared.conversation_id, files=[path])
        assert sent.seq == 1
        assert (await shared.messages())[0]["files"][0]["mime"] == "application/pdf"
