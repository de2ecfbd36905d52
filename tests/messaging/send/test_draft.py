"""Drafts: the answer to an id that came twice."""

from __future__ import annotations

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
