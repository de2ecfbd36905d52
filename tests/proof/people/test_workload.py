"""The people: their conversations, what they do, and a stranger who gets nowhere."""

from __future__ import annotations

import pytest

from tests.proof.people.test_device import records
from tests.support.waiting import eventually
from tidings.clock import Dice
from tidings.config.values import SettingsError
from tidings_proof.judge.history import History
from tidings_proof.people import workload
from tidings_proof.people.workload import ACTS, Workload
from tidings_proof.world.proxy import Proxy


async def test_everybody_has_conversations_of_every_kind(people: Workload) -> None:
    kinds = sorted(c.kind for c in people.conversations.values())
    assert {"direct", "group", "channel"} == set(kinds)
    assert sum(c.is_churned for c in people.conversations.values()) == 2
    assert len(people.devices) == 8 and people.sleeper == "u3"
    await eventually(lambda: all(one.is_live for one in people.devices))


async def test_nodes_that_know_no_such_users_are_asked_once(front: Proxy, history: History) -> None:
    people = Workload(lambda: [front.port], lambda user_id: "forged", history, Dice(1), users=3)
    with pytest.raises(SettingsError, match="--auth-secret"):
        await people.gather()


async def test_nodes_that_never_answer_are_given_up_with_a_reason(
    front: Proxy, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "_SETUP_S", 0.3)
    await front.cut()
    people = Workload(lambda: [front.port], lambda user_id: "any", history, Dice(1), users=3)
    with pytest.raises(TimeoutError, match="no conversation could be made within"):
        await people.gather()


def test_names_are_those_of_the_run_where_it_has_an_id(history: History) -> None:
    plain, named = (Workload(list, str, history, Dice(1), users=3, run_id=run_id) for run_id in ("", "ab12"))
    assert plain.users == ["u0", "u1", "u2"] and plain.stranger == "stranger"
    everybody = [*named.users, *named.idle, named.stranger]
    assert named.users[0] == "torture-ab12-u0" and named.sleeper == named.users[-1]
    assert all(name.startswith("torture-ab12-") for name in everybody)


async def test_every_act_can_be_done_and_is_recorded(people: Workload, history: History) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    for device in people.devices:
        for id_, one in device.followed.items():
            if one.is_here:
                device.compose(id_)
    await eventually(lambda: all(one.is_settled for one in people.devices))
    for device in people.devices:
        for act in ACTS:
            await act.do(people, device)
    people.check_alive()
    done = {record.f for record in records(history) if record.type in ("ok", "fail")}
    assert {"send", "read", "unread", "history", "inbox"} <= done and done & {"edit", "delete"}
    assert done & {"join", "leave"}
    read = {record.user_id for record in records(history) if record.f in ("read", "unread")}
    assert people.sleeper not in read


async def test_a_stranger_is_let_in_nowhere(people: Workload, history: History) -> None:
    def knocks() -> list[str]:
        knocked = [r for r in records(history) if r.f == "knock" and r.user_id == people.stranger]
        return [r.type for r in knocked if r.type != "invoke"]

    await eventually(lambda: len(knocks()) >= 7)
    assert set(knocks()) == {"fail"}


async def test_members_come_and_go(people: Workload, history: History) -> None:
    for _ in range(12):
        await people.change_members()
    ended = {(r.f, r.type) for r in records(history) if r.f in ("join", "leave") and r.type != "invoke"}
    assert ("join", "ok") in ended and ("leave", "ok") in ended and ("leave", "info") not in ended
