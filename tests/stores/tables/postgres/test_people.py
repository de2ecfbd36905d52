"""The contract of blocks and preferences on PostgreSQL."""

from __future__ import annotations

from tests.contracts.people import PeopleContract


class TestPeople(PeopleContract): ...
