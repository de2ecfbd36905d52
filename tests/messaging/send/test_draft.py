"""Drafts: the answer to an id that came twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messaging.drafts import draft, target
from tidings.errors import IdConflict, StoreUnavailable
from tidings.messaging.send.draft import keyed_digest
from tidings.model import Content, Sent, digest_of


def test_a_follower_is_a_duplicate_or_a_conflict_or_shares_the_problem() -> None:
    first, same, other = draft("m1"), draft("m1"), draft("m1", content=Content("else"))
    first.entry = target(7, digest=first.digest)
    answer = first.answer_follower(same)
    assert isinstance(answer, Sent) and answer.is_duplicate and answer.entry.seq_no == 7
    assert isinstance(first.answer_follower(other), IdConflict)
    first.problem = StoreUnavailable()
    assert first.answer_follower(same) is first.problem
    assert first.answer_follower(other) is first.problem


@pytest.mark.parametrize(
    ("fields", "is_plain"),
    [
        ({}, True),
        ({"content": Content("hi", silent=True)}, False),
        ({"content": Content("hi", ttl_s=5)}, False),
        ({"content": Content("hi", mentions=("bob",))}, False),
        ({"content": Content("hi", thread_seq=1)}, False),
        ({"kind": "edit", "target": target(1)}, False),
        ({"kind": "delete", "content": None, "target": target(1)}, False),
    ],
)
def test_only_a_new_text_and_nothing_else_is_plain(fields: dict[str, Any], is_plain: bool) -> None:
    assert draft("m1", **fields).says_a_text is is_plain


def test_a_keyed_digest_tells_contents_ids_and_stores_apart() -> None:
    plain, id_ = digest_of(Content("1234")), ("c", "alice", "m1")
    kept = keyed_digest(b"secret", id_, plain)
    assert kept == keyed_digest(b"secret", id_, plain) and len(kept) != len(plain)
    others = [
        keyed_digest(b"another", id_, plain),
        keyed_digest(b"secret", ("c2", "alice", "m1"), plain),
        keyed_digest(b"secret", ("c", "bob", "m1"), plain),
        keyed_digest(b"secret", ("c", "alice", "m2"), plain),
        keyed_digest(b"secret", id_, digest_of(Content("1235"))),
    ]
    assert len({kept, *others}) == 6
    assert plain not in kept
