from __future__ import annotations

from tidings.protocol.server_frames import SERVER_FRAMES


def test_every_server_frame_has_a_tag_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in SERVER_FRAMES]
    assert len(set(tags)) == len(tags) and None not in tags
