from __future__ import annotations

from tests.sdk.scripted import StillClock
from tidings.bounds import CLIENT_LANE_SENDS_MAX, CLIENT_SENDS_MAX
from tidings.errors import Held, RateLimited, StoreUnavailable
from tidings.sdk.drafts import Draft
from tidings.sdk.outbox import Outbox


def filled(*names: str, conversation_id: str = "c1", clock: StillClock | None = None) -> tuple[Outbox, list[Draft]]:
    outbox = Outbox(clock or StillClock())
    drafts = [Draft(conversation_id, name, name) for name in names]
    for draft in drafts:
        outbox.add(draft)
    return outbox, drafts


def test_drafts_go_in_order_and_once() -> None:
    outbox, drafts = filled("a", "b", "c")
    assert outbox.ready() == drafts
    assert outbox.ready() == []


def test_a_refused_one_goes_again_alone_and_the_next_when_it_is_stored() -> None:
    clock = StillClock()
    outbox, (a, b, c) = filled("a", "b", "c", clock=clock)
    outbox.ready()
    outbox.refuse(a, RateLimited(retry_after_ms=1_000))
    outbox.refuse(b, Held())
    assert outbox.ready() == [], "c is still on its way"
    outbox.refuse(c, Held())
    assert outbox.ready() == [], "the server asked for a second"
    assert 1.0 <= (outbox.wait_s() or 0) < 2
    clock.now_s += 2
    assert outbox.ready() == [a]
    assert outbox.ready() == []
    outbox.done(a)
    assert outbox.ready() == [b]
    outbox.done(b)
    assert outbox.ready() == [c]
    outbox.done(c)
    assert len(outbox) == 0


def test_another_conversation_does_not_wait_for_a_hold() -> None:
    outbox, (a,) = filled("a")
    outbox.ready()
    outbox.refuse(a, StoreUnavailable())
    other = Draft("c2", "x", "x")
    outbox.add(other)
    assert outbox.ready() == [other]


def test_after_a_lost_connection_everything_unanswered_goes_again_in_order() -> None:
    outbox, (a, b, c) = filled("a", "b", "c")
    outbox.ready()
    outbox.done(b)
    outbox.interrupt()
    assert outbox.ready() == [a, c]


def test_a_wait_that_the_server_asked_for_outlives_the_connection() -> None:
    clock = StillClock()
    outbox, (a,) = filled("a", clock=clock)
    outbox.ready()
    outbox.refuse(a, RateLimited(retry_after_ms=5_000))
    outbox.interrupt()
    assert outbox.ready() == []
    clock.now_s += 6
    assert outbox.ready() == [a]


def test_a_new_draft_does_not_overtake_a_hold() -> None:
    clock = StillClock()
    outbox, (a,) = filled("a", clock=clock)
    outbox.ready()
    outbox.refuse(a, StoreUnavailable())
    b = Draft("c1", "b", "b")
    outbox.add(b)
    assert outbox.ready() == []
    clock.now_s += 60
    assert outbox.ready() == [a]
    outbox.done(a)
    assert outbox.ready() == [b]


def test_what_is_under_way_is_bounded() -> None:
    outbox = Outbox(StillClock())
    for conversation in range(8):
        for number in range(CLIENT_LANE_SENDS_MAX + 5):
            outbox.add(Draft(f"c{conversation}", f"m{number}", "x"))
    first = outbox.ready()
    assert len(first) == CLIENT_SENDS_MAX
    assert max([draft.conversation_id for draft in first].count(f"c{n}") for n in range(8)) == CLIENT_LANE_SENDS_MAX
    outbox.done(first[0])
    assert len(outbox.ready()) == 1


def test_one_given_up_while_held_lets_the_others_go() -> None:
    clock = StillClock()
    outbox, (a, b) = filled("a", "b", clock=clock)
    outbox.ready()
    outbox.refuse(a, StoreUnavailable())
    outbox.refuse(b, Held())
    outbox.done(a)
    assert ("c1", "a") not in outbox and outbox.get(("c1", "b")) == b
    clock.now_s += 60
    assert outbox.ready() == [b]
