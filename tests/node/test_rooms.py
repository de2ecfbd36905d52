from __future__ import annotations

from tidings.node.graph import Core


async def test_the_parts_of_large_conversations_share_one_keyspace_and_cap(core: Core) -> None:
    large = core.large
    assert large.scripts.keep == 2 * core.settings.unread.cap
    assert large.counts.tallies is large.tallies and large.tallies.keyspace is core.keyspace


async def test_the_metric_counts_the_large_conversations_in_memory(core: Core) -> None:
    assert core.metrics.registry.get_sample_value("tidings_large_conversations") == 0
