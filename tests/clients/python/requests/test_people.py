"""Profiles and their pictures through the client."""

from __future__ import annotations

import io

from PIL import Image

from tidings.testing import TestServer
from tidings_client.people import Profile


async def test_a_picture_is_uploaded_and_its_path_is_kept(server: TestServer) -> None:
    alice = server.server().account("alice")
    image = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(image, "PNG")
    shown = await alice.set_picture("alice", image.getvalue())
    assert shown.avatar_url is not None and shown.avatar_url.startswith("/v1/pictures/")
    assert (await alice.set_profile("alice", name="Alice", avatar_url=shown.avatar_url)).avatar_url == shown.avatar_url
    assert await alice.profile("alice") == Profile("alice", "Alice", shown.avatar_url)
