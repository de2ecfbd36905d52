"""Owners and names of records: no two of them meet."""

from __future__ import annotations

from tidings.stores.tables.records import DEPLOYMENT, Put, Record, RecordKey, of_conversation, of_user, seq_name


def test_a_user_and_a_conversation_of_the_same_id_are_two_owners() -> None:
    assert len({of_user("a"), of_conversation("a"), DEPLOYMENT}) == 3


def test_names_of_entries_are_ordered_as_their_numbers() -> None:
    numbers = [1, 9, 10, 99, 1_000_000]
    assert sorted(map(seq_name, reversed(numbers))) == [seq_name(number) for number in numbers]


def test_a_put_and_its_record_have_one_key() -> None:
    key = RecordKey("u:a", "drafts", "c1")
    assert Put(*key, b"{}").key == Record(*key, b"{}", 1).key == key
