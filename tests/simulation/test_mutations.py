"""Mutations: each still finds its place in the code of today."""

from __future__ import annotations

import os
from contextlib import suppress

from tidings_proof.simulation.mutations import ODD_MUTATIONS
from tidings_proof.simulation.oddities import KINDS
from tidings_proof.simulation.run import KNOWN


def test_every_mistake_can_be_made() -> None:
    """Each in a process of its own, because it stays."""
    for name, mutation in KNOWN.items():
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                mutation()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0, f"{name} has no place any more"


def test_every_oddity_has_a_mistake_that_shows_it_is_looked_at() -> None:
    assert {kind for kind, _ in ODD_MUTATIONS.values()} == set(KINDS)
