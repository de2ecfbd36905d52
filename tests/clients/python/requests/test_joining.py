"""Rules, invites, bans and reports through the client."""

from __future__ import annotations

import pytest

from tidings.testing import TestServer
from tidings_client.errors import Forbidden, Gone
from tidings_client.rules import Rules


async def test_rules_are_changed_and_people_come_and_go(server: TestServer) -> None:
    alice, bob, carol = (server.server().account(name) for name in ("alice", "bob", "carol"))
    group = await alice.create("group", [], name="Team")
    name = group.conversation_id
    await alice.rules.change(name, visibility="open", slow_s=30)
    shown = await alice.conversation(name)
    assert (shown.rules, shown.role) == (Rules(visibility="open", slow_s=30), "owner")
    await bob.rules.join(name)
    await alice.send(name, "rude words")
    await bob.rules.report(name, 3, "rude")
    await alice.rules.ban(name, "bob")
    with pytest.raises(Forbidden):
        await bob.rules.join(name)
    await alice.rules.unban(name, "bob")
    invite = await alice.rules.invite(name, uses=1)
    assert await bob.rules.use(invite.invite) == name
    with pytest.raises(Gone):
        await carol.rules.use(invite.invite)
