"""An export of Zulip: a topic is a thread; files lie where the text names them."""

from __future__ import annotations

from pathlib import Path

from tests.support.exports import FILE, zulip
from tidings.messaging.transfer.sources.zulip import Zulip


def test_topics_become_threads(tmp_path: Path) -> None:
    source = Zulip(zulip(tmp_path / "out"), {"ben@example.com": "ben"})
    assert [one.user_id for one in source.people()] == ["ann@example.com", "ben", "cleo@example.com"]
    stream, pair = source.conversations()
    assert (stream.conversation_id, stream.kind, stream.name) == ("zulip-stream-7", "channel", "engineering")
    root, lunch, reply = source.messages(stream)
    assert (root.text, root.mentions, root.mention) == ("root for @Ben and @all", ("ben",), "all")
    assert (root.is_root, lunch.is_root, reply.root) == (True, True, root.message_id)
    assert root.reactions == (("👍", ("ben",)),) and root.sent_ms == 1_500_000_001_500
    with reply.files[0].open() as opened:
        assert (reply.files[0].name, opened.read()) == ("notes.txt", FILE)
    assert reply.data == {"zulip": {"topic": "builds", "files": ["1/gone"]}}
    (secret,) = source.messages(pair)
    assert (secret.data, secret.root) == (None, None)
    assert {one.user_id for one in pair.members} == {"ann@example.com", "ben"}
