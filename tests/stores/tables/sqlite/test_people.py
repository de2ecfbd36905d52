"""The contract of blocks and preferences on SQLite."""

from __future__ import annotations

from tests.contracts.people import PeopleContract


class TestPeople(PeopleContract): ...
