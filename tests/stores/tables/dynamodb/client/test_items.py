"""Values become items and come back as they were."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidings.model import KINDS, Content, Entry, Head, Member, MemberChange, Row, Status
from tidings.stores.tables.dynamodb.client import items

NUMBERS = st.integers(0, 2**62)
WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
MAYBE = st.none() | WORDS
CHANGES = st.builds(MemberChange, st.sampled_from(["added", "left"]), st.lists(WORDS, max_size=3).map(tuple), st.none())
ENTRIES = st.builds(
    Entry,
    conversation_id=WORDS,
    seq_no=NUMBERS,
    kind=st.sampled_from(["message", "edit", "delete", "member", "void"]),
    sent_ms=NUMBERS,
    message_id=MAYBE,
    sender_id=MAYBE,
    receiver_id=MAYBE,
    timestamp=st.none() | st.integers(-(2**53), 2**53),
    digest=st.none() | st.binary(max_size=12),
    target_seq=st.none() | NUMBERS,
    is_deleted=st.booleans(),
    edited_ms=st.none() | NUMBERS,
    edit_seq=st.none() | NUMBERS,
    rev=NUMBERS,
    s3_ref=MAYBE,
)
FLAGS = st.booleans()
ROWS = st.builds(
    Row,
    user_id=WORDS,
    conversation_id=WORDS,
    kind=st.just("group"),
    name=MAYBE,
    last_message_preview=MAYBE,
    last_seq=NUMBERS,
    muted=FLAGS,
    pinned=FLAGS,
    is_hidden=FLAGS,
)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=64).map(tuple)
STATUSES = st.builds(Status, conversation_id=WORDS, user_id=WORDS, read_seq=NUMBERS, ranges=PAIRS, version=NUMBERS)


CONTENTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=50).map(Content)


def as_its_kind(entry: Entry, content: Content | None, member: MemberChange) -> Entry:
    """An entry has what its kind has."""
    kind = KINDS[entry.kind]
    held = {"content": content if kind.has_content else None, "member": member if kind.changes_members else None}
    return msgspec.structs.replace(entry, **held)


@given(st.builds(as_its_kind, ENTRIES, CONTENTS, CHANGES))
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    assert items.entry_of(items.entry_item(entry)) == entry


@given(ROWS)
def test_a_row_comes_back_without_its_shard(row: Row) -> None:
    item = items.row_item(row)
    assert 0 <= items.plain(item["shard"]) < items.USER_SHARDS
    assert items.row_of(item) == row


@given(STATUSES)
def test_a_status_comes_back_with_its_ranges(status: Status) -> None:
    assert items.status_of(items.status_item(status)) == status


def test_what_is_none_takes_no_room() -> None:
    item = items.entry_item(Entry(conversation_id="c", seq_no=1, kind="void", sent_ms=5))
    assert set(item) == {"conversation_id", "seq_no", "kind", "sent_ms", "rev"}
    assert set(items.to_item(Member(conversation_id="c", user_id="u"))) == {
        "conversation_id",
        "user_id",
        "role",
        "joined_seq",
        "joined_ms",
        "is_requested",
    }


def test_a_head_without_its_head_does_not_exist() -> None:
    head = Head(conversation_id="c", kind="group", created_ms=1)
    item = items.to_item(head)
    assert items.head_of(item) == head
    del item["head"]
    assert items.head_of(item) is None and items.head_of(None) is None


def test_a_short_message_and_its_dedupe_row_fit_a_unit_each() -> None:
    entry = Entry(
        conversation_id="d-" + "0" * 32,
        seq_no=10**9,
        kind="message",
        sent_ms=1_700_000_000_000,
        message_id="0" * 36,
        sender_id="u" * 36,
        receiver_id="u" * 36,
        timestamp=1_700_000_000_000,
        digest=b"0" * 12,
        content=Content("x" * 500),
    )
    for item in (items.entry_item(entry), items.sent_item(entry)):
        assert sum(len(name) + len(str(items.plain(value))) for name, value in item.items()) < 1024
