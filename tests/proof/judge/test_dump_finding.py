"""Files and words, read in the end."""

from __future__ import annotations

from tidings_proof.judge.dump_finding import _path


def test_a_link_is_followed_on_any_node() -> None:
    assert _path("/v1/downloads/abc/notes.txt") == "/v1/downloads/abc/notes.txt"
    assert _path("http://127.0.0.1:1/a?b=c") == "/a?b=c"
