"""The benchmark of the search: everything is indexed, and what is asked for is there."""

from __future__ import annotations

from pathlib import Path

from tidings_proof.bench.claims.search import index_bytes, seed
from tidings_proof.bench.target.seeding import tables_in


async def test_every_conversation_is_indexed_before_the_node_starts(tmp_path: Path) -> None:
    asked = await seed(tmp_path, 3, 20)
    assert asked and all(asked) and index_bytes(tmp_path) > 0
    async with tables_in(tmp_path) as tables:
        assert tables.search is not None
        assert await tables.search.cursors(["c0", "c1", "c2"]) == {"c0": 20, "c1": 20, "c2": 20}
