from __future__ import annotations

import pytest

from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.messaging.files.tickets import Ticket, Tickets

SECRET = "a secret of the tables"


def ticket(**fields: object) -> Ticket:
    given = {"right": "read", "user_id": "bob", "conversation_id": "c1", "file_id": "f1", "expires_ms": 1 << 50}
    return Ticket(**(given | fields))  # type: ignore[arg-type]


def test_a_ticket_is_good_on_every_node_with_the_same_tables() -> None:
    one, other = Tickets(SECRET, Clock()), Tickets(SECRET, Clock())
    assert other.verify(one.sign(ticket(start=5)), "read") == ticket(start=5)


def test_a_ticket_gives_no_other_right() -> None:
    tickets = Tickets(SECRET, Clock())
    with pytest.raises(NotFound):
        tickets.verify(tickets.sign(ticket()), "write")


def test_a_ticket_ends() -> None:
    tickets = Tickets(SECRET, Clock())
    with pytest.raises(NotFound):
        tickets.verify(tickets.sign(ticket(expires_ms=Clock().now_ms() - 1)), "read")


def test_a_ticket_that_was_changed_or_made_elsewhere_is_refused() -> None:
    tickets = Tickets(SECRET, Clock())
    good = tickets.sign(ticket())
    for bad in (good[:-2], good[:30] + ("A" if good[30] != "A" else "B") + good[31:], "", "é", "%", "A" * 5):
        with pytest.raises(NotFound):
            tickets.verify(bad, "read")
    with pytest.raises(NotFound):
        tickets.verify(Tickets("another", Clock()).sign(ticket()), "read")
