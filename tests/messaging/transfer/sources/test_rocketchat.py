"""Collections of Rocket.Chat: threads, mentions, reactions and files; what the server said is left out."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.exports import FILE, rocketchat
from tidings.messaging.transfer.sources.rocketchat import RocketChat


def test_collections_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    source = RocketChat(rocketchat(tmp_path / "out"), {})
    assert [one.name for one in source.people()] == ["Ann", "Ben", "Cleo"]
    (general,) = source.conversations()
    assert (general.conversation_id, general.kind, general.created_ms) == ("rc-R1", "channel", 1_500_000_000_000)
    root, reply, shared = source.messages(general)
    assert (root.message_id, root.sent_ms, root.is_root) == ("rc-m1", 1_500_000_001_000, True)
    assert (root.mentions, root.mention, root.reactions) == (("ben",), "all", (("👍", ("cleo",)),))
    assert (reply.root, reply.sender_id) == ("rc-m1", "ben")
    with shared.files[0].open() as opened:
        assert (shared.text, opened.read()) == (None, FILE)


def test_a_collection_may_be_one_array(tmp_path: Path) -> None:
    folder = rocketchat(tmp_path / "out")
    users = [json.loads(line) for line in (folder / "users.json").read_text("utf-8").splitlines()]
    (folder / "users.json").write_text(json.dumps(users), "utf-8")
    assert len(RocketChat(folder, {}).people()) == 3
