"""The journey of a person who is erased: afterwards no byte of theirs is in any file of the data folder."""

from __future__ import annotations

import http.client
import json
import time
import zlib
from pathlib import Path

from tests.support.nodes.node_process import NodeProcess
from tidings.messaging.archive.segment import MAGIC

WORDS = ("quetzal", "zebu", "okapi", "axolotl", "saiga", "kakapo", "dugong", "tarsier", "gharial")


def upload(node: NodeProcess, c: str, name: str, data: bytes) -> str:
    body = {"name": name, "mime": "text/plain", "bytes": len(data)}
    status, begun = node.rest("POST", f"/v1/conversations/{c}/uploads", body, "bob")
    assert status == 201
    link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    link.request("PUT", begun["parts"][0]["url"], data)
    assert link.getresponse().status == 204
    link.close()
    assert node.rest("POST", f"/v1/conversations/{c}/uploads/{begun['file_id']}/complete", {}, "bob")[0] == 200
    return str(begun["file_id"])


def live(node: NodeProcess) -> str:
    """Bob writes, edits, reacts, drafts, schedules, reports and shares; alice does one thing that stays."""
    c = node.create_group(["alice", "bob", "carol"])
    one = f"/v1/conversations/{c}"
    for method, path, body, user_id in (
        ("PUT", "/v1/users/bob", {"name": "Bob Quetzal"}, "bob"),
        ("POST", f"{one}/messages", {"message_id": "m1", "text": "a zebu in the room"}, "bob"),
        ("POST", f"{one}/messages", {"message_id": "m2", "text": "an okapi, to be edited"}, "bob"),
        ("PATCH", f"{one}/messages/2", {"text": "an axolotl, edited"}, "bob"),
        ("POST", f"{one}/messages", {"message_id": "m3", "text": "the words of alice stay"}, "alice"),
        ("PUT", f"{one}/messages/4/reactions/sign", None, "bob"),
        ("PUT", f"/v1/drafts/{c}", {"text": "a saiga that was never sent", "version": 0}, "bob"),
        (
            "PUT",
            "/v1/scheduled/m9",
            {"conversation_id": c, "text": "a kakapo for later", "send_at": int(time.time() * 1000) + 86_400_000},
            "bob",
        ),
        ("POST", f"{one}/messages/4/report", {"reason": "it is about a dugong"}, "bob"),
    ):
        status, answer = node.rest(method, path, body, user_id)
        assert status < 300, (path, status, answer)
    sent = upload(node, c, "tarsier.txt", b"the tarsier in the file")
    upload(node, c, "gharial.txt", b"a gharial that was never sent")
    assert node.rest("POST", f"{one}/messages", {"text": "with a file", "files": [sent]}, "bob")[0] == 201
    return c


def found(folder: Path) -> dict[str, list[str]]:
    """The words of bob that are left, by file. Segments are unpacked, because they are compressed."""
    left: dict[str, list[str]] = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        raw = path.read_bytes()
        if raw.startswith(MAGIC):
            raw = zlib.decompress(raw[len(MAGIC) + 32 :])
        if words := [word for word in WORDS if word.encode() in raw.lower()]:
            left[str(path.relative_to(folder))] = words
    return left


def words_in(folder: Path) -> set[str]:
    return {word for words in found(folder).values() for word in words}


def test_no_byte_of_an_erased_person_is_left_on_the_disk(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with NodeProcess(data, {"TIDINGS_ARCHIVE_AFTER_DAYS": "0", "TIDINGS_LIMITS_SEARCH": "off"}) as node:
        node.start()
        c = live(node)
        before = words_in(data)
        assert node.tidings("archive", "run").returncode == 0
        assert (
            node.rest("POST", f"/v1/conversations/{c}/messages", {"text": "one more zebu, not archived"}, "bob")[0]
            == 201
        )
        deadline_s = time.monotonic() + 60
        while len(node.rest("GET", "/v1/search?q=zebu", user_id="alice")[1]["hits"]) < 2:
            assert time.monotonic() < deadline_s
        assert before | words_in(data) == set(WORDS)
        done = node.tidings("user", "erase", "--user", "bob", "--json")
        assert done.returncode == 0, done.stderr
        certificate = json.loads(done.stdout)
        assert (certificate["messages"], certificate["reactions"], certificate["files"]) == (4, 1, 2)
        assert certificate["groups"] == 1 and certificate["remains"]
        assert found(data) == {}, "with the certificate, while the node runs"
        assert node.rest("GET", "/v1/search?q=zebu", user_id="alice")[1]["hits"] == []
        page = node.rest("GET", f"/v1/conversations/{c}/messages", user_id="alice")[1]["messages"]
        assert [message["text"] for message in page if message.get("text")] == ["the words of alice stay"]
        assert [message["seq"] for message in page if isinstance(message.get("reactions"), dict)] == []
        with node.keyspace() as keyspace:
            keyspace.bgrewriteaof()
        node.stop()
    assert found(data) == {}
