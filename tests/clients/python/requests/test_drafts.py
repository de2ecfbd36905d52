"""Drafts through the client: put, pushed to the other device, refused where it is older."""

from __future__ import annotations

import pytest

from tidings.testing import TestServer
from tidings_client import Client, DraftChanged, NewerDraft, OwnDraft


async def test_a_draft_reaches_the_other_device_and_an_older_one_is_refused(server: TestServer) -> None:
    alice = server.server().account("alice")
    name = await alice.direct("bob")
    async with Client(server.url, server.token("alice")) as device:
        events = device.events(DraftChanged)
        assert (await alice.drafts.put(name, "hi", 0)).version == 1
        assert await anext(events) == DraftChanged(name, "hi", 1)
        assert [row.draft for row in (await device.inbox()).conversations] == [OwnDraft("hi", 1)]
        with pytest.raises(NewerDraft) as refused:
            await device.drafts.put(name, "other", 0)
        assert (refused.value.draft.text, refused.value.draft.version) == ("hi", 1)
        assert (await device.drafts.put(name, "", 1)).text == ""
        assert [row.draft for row in (await device.inbox()).conversations] == [None]
