"""Idle connections: opened in parts, left open, and left without a failure."""

from __future__ import annotations

from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus import idle
from tidings_proof.bench.versus.rivals import Server, Sizes


async def test_a_sign_in_and_an_idle_connection_have_their_cost(target: Target) -> None:
    server = Server(target, Sizes(connections=8, idle_s=0.1))
    found = await idle.measure({"tidings": server}, 2)
    assert len(found["connect"]["tidings"]) == 2 and min(found["connect"]["tidings"]) > 0
    assert found["idle"]["tidings"][0] >= 0
    assert len(found["memory"]["tidings"]) == 1


def test_more_files_are_asked_for_only_when_they_are_needed() -> None:
    idle.allow_files(1)
