"""The hub: the sockets of this node, by user."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import Device
from tidings.bounds import CONNECTIONS_PER_USER_MAX
from tidings.errors import Close
from tidings.pushes import ConversationRemoved, Event
from tidings.routing.hub import Hub

EVENT = ConversationRemoved("c")


class Slow(Device):
    """A reader that is closed by the first push, as the gateway does with a full queue."""

    def __init__(self, hub: Hub, user_id: str, connection_id: str) -> None:
        super().__init__(user_id, connection_id)
        self._hub = hub

    def push(self, event: Event) -> None:
        super().push(event)
        self._hub.detach(self)


def test_a_push_goes_to_every_connection_of_the_user_but_one() -> None:
    hub = Hub()
    phone, laptop, other = Device("alice", "1"), Device("alice", "2"), Device("bob", "3")
    assert all(hub.attach(device) for device in (phone, laptop, other))
    hub.push("alice", EVENT, but="1")
    assert (phone.events, laptop.events, other.events) == ([], [EVENT], [])
    hub.push("nobody", EVENT)
    assert len(hub) == 3 and set(hub.users()) == {"alice", "bob"} and list(hub) == [phone, laptop, other]


def test_a_reader_closed_by_a_push_takes_nothing_from_the_next() -> None:
    hub = Hub()
    slow, second, third = Slow(hub, "alice", "1"), Slow(hub, "alice", "2"), Device("alice", "3")
    for device in (slow, second, third):
        hub.attach(device)
    hub.push("alice", EVENT)
    assert [len(device.events) for device in (slow, second, third)] == [1, 1, 1]
    assert list(hub.of_user("alice")) == [third]


def test_the_same_device_again_replaces_the_older_connection() -> None:
    hub = Hub()
    older, newer, unnamed = Device("alice", "1", "laptop"), Device("alice", "2", "laptop"), Device("alice", "3")
    for device in (older, unnamed, newer):
        assert hub.attach(device)
    assert older.closed == [Close.REPLACED] and newer.closed == [] and unnamed.closed == []
    assert list(hub.of_user("alice")) == [unnamed, newer]
    hub.detach(older)
    assert list(hub.of_user("alice")) == [unnamed, newer]


def test_the_same_device_name_of_another_user_is_another_device() -> None:
    hub = Hub()
    mine, theirs = Device("alice", "1", "laptop"), Device("bob", "2", "laptop")
    hub.attach(mine), hub.attach(theirs)
    assert mine.closed == [] and len(hub) == 2


def test_a_user_has_at_most_so_many_connections_and_may_still_replace_one() -> None:
    hub = Hub()
    for i in range(CONNECTIONS_PER_USER_MAX):
        assert hub.attach(Device("alice", str(i), f"d{i}"))
    assert not hub.attach(Device("alice", "more", "another"))
    assert hub.attach(Device("alice", "again", "d0"))
    assert len(hub.of_user("alice")) == CONNECTIONS_PER_USER_MAX
    assert hub.attach(Device("bob", "b"))


def test_who_has_gone_is_forgotten() -> None:
    hub = Hub()
    device = Device("alice", "1")
    hub.attach(device)
    hub.detach(device)
    hub.detach(device)
    assert list(hub.users()) == [] and len(hub) == 0 and not hub.of_user("alice")


def test_connections_and_their_users_are_counted() -> None:
    hub = Hub()
    for user_id, number, device in (("alice", "1", None), ("alice", "2", "phone"), ("bob", "3", None)):
        hub.attach(Device(user_id, number, device))
    hub.attach(Device("alice", "4", "phone"))  # replaces the second
    assert len(hub) == len(list(hub)) == 3 and hub.users_count == 2
    for connection in list(hub.of_user("alice")):
        hub.detach(connection)
    assert len(hub) == len(list(hub)) == 1 and hub.users_count == 1


def test_who_is_present_is_found_whichever_group_is_larger() -> None:
    hub = Hub()
    for number in range(5):
        hub.attach(Device(f"u{number}", str(number)))
    assert hub.present({"u1": None, "stranger": None}) == {"u1"}
    assert hub.present({f"u{number}": None for number in range(3, 50)}) == {"u3", "u4"}
    assert hub.present({}) == set() and Hub().present({"u1": None}) == set()
