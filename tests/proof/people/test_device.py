"""A device: it sends in order, follows what it hears, and comes back by its contiguous seq."""

from __future__ import annotations

from tests.support.waiting import eventually
from tidings_proof.judge.history import History, Record, read_history
from tidings_proof.people.device import Device, Followed
from tidings_proof.people.workload import Workload
from tidings_proof.torture.run import unsettled
from tidings_proof.world.proxy import Proxy


def test_the_contiguous_seq_waits_for_what_is_missing() -> None:
    one = Followed(is_here=True)
    assert not one.take(2) and one.have == 0 and one.ahead == {2}
    assert one.take(1) and one.have == 2 and not one.ahead
    one.take(5)
    one.jump(4)
    assert (one.have, one.top) == (5, 5)


def test_a_void_is_had_and_is_not_the_top() -> None:
    one = Followed(is_here=True)
    one.take(1)
    one.take(2, is_void=True)
    assert (one.have, one.top) == (2, 1)


def records(history: History) -> list[Record]:
    history._write()
    history._output.flush()
    return list(read_history(history.file))


def answered_acks(history: History, device: Device) -> list[tuple[str, int]]:
    answers = [one for one in records(history) if (one.type, one.f, one.user_id) == ("ok", "ack", device.user_id)]
    return [ack for one in answers for ack in one.value.items()]


def two_of(people: Workload) -> tuple[str, Device, Device]:
    """A direct conversation and a device on each side."""
    conversation = next(c for c in people.conversations.values() if c.kind == "direct")
    sides = [next(one for one in people.devices if one.user_id == user_id) for user_id in conversation.members]
    return conversation.id, sides[0], sides[1]


async def test_what_is_composed_is_sent_in_order_and_everybody_has_it(people: Workload, history: History) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    id_, one, other = two_of(people)
    ids = [one.compose(id_) for _ in range(12)]
    await eventually(lambda: one.is_settled and not unsettled(people) and other.followed[id_].have == 12)
    sends = [record for record in records(history) if record.f == "send"]
    assert [record.message_id for record in sends if record.type == "invoke"] == ids
    assert [record.seq for record in sends if record.type == "ok"] == list(range(1, 13))
    assert [entry[1] for entry in one.acked] == ids
    await eventually(lambda: (id_, 12) in answered_acks(history, other))


async def test_who_was_cut_off_resumes_where_it_was_and_sends_the_rest(
    people: Workload, front: Proxy, history: History
) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    id_, one, other = two_of(people)
    one.compose(id_)
    await eventually(lambda: other.followed[id_].have == 1)
    await front.cut()
    message_id = one.compose(id_)
    await eventually(lambda: not any(device.is_live for device in people.devices))
    front.mend()
    await eventually(lambda: one.is_settled and other.followed[id_].have == 2)
    assert one.acked[-1][1] == message_id
    resumes = [r.value for r in records(history) if r.f == "connected" and r.user_id == other.user_id]
    assert resumes[0][id_] == 0 and resumes[-1][id_] == 1


async def test_what_is_refused_for_good_is_not_sent_again(people: Workload, history: History) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    id_, one, _ = two_of(people)
    message_id = one.compose(id_)
    await eventually(lambda: one.is_settled)
    assert await one.send(id_, message_id, "another text") == "fail"
    assert [r.error for r in records(history) if r.type == "fail" and r.f == "send"] == ["conflict"]


async def test_a_page_fills_a_gap_and_tells_who_is_not_a_member(people: Workload) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    id_, one, other = two_of(people)
    one.compose(id_)
    await eventually(lambda: other.followed[id_].have == 1)
    other.followed[id_].have = 0
    assert await other.page(id_, after_seq=0, limit=10) is not None
    assert other.followed[id_].have == 1
    outsider = next(device for device in people.devices if device.user_id not in (one.user_id, other.user_id))
    outsider.followed[id_] = Followed(is_here=True)
    assert await outsider.page(id_, after_seq=0, limit=10) is None
    assert not outsider.followed.pop(id_).is_here
