"""A bulk export of Mattermost: threads, mentions, reactions, files and direct messages, in the order of time."""

from __future__ import annotations

from pathlib import Path

from tests.support.exports import FILE, mattermost
from tidings.messaging.transfer.sources.mattermost import Mattermost


def test_a_bulk_export_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    source = Mattermost(mattermost(tmp_path / "export.zip"), {"cleo": "cleopatra"})
    assert [(one.user_id, one.name) for one in source.people()][2] == ("cleopatra", "Cleo")
    town, direct = source.conversations()
    assert (town.conversation_id, town.kind, town.name) == ("mm-t-town", "channel", "Town")
    assert [one.user_id for one in town.members] == ["ann", "ben", "cleopatra"]
    root, between, reply = source.messages(town)
    assert [one.text for one in (root, between, reply)] == ["root for @ben and @nobody", "between", "reply"]
    assert root.is_root and reply.root == root.message_id and reply.edited_ms == 4_000
    assert (root.mentions, root.reactions) == (("ben",), (("❤️", ("ben",)),))
    (file,) = between.files
    with file.open() as opened:
        assert (file.name, opened.read()) == ("notes.txt", FILE)
    assert between.data == {"mattermost": {"files": ["a/gone.txt"]}}
    (secret,) = source.messages(direct)
    assert (secret.text, secret.mention, direct.kind) == ("@all between us", "all", "group")
    assert [one.message_id for one in source.messages(town)] == [one.message_id for one in source.messages(town)]
