"""The archiver's lease on a real server: one holder, renewed by him alone, given up by him alone."""

from __future__ import annotations

from tidings.node.graph import Core
from tidings.stores.keyspace.scripts.archive import ArchiveScripts, Lead


async def test_the_lease_has_one_holder(core: Core) -> None:
    scripts, one = ArchiveScripts(core.keys), core.keyspace.one
    assert await one(scripts.archive_leader()) == ""
    assert await one(scripts.archive_lease("a", ttl_ms=60_000)) == Lead("a", 60_000)
    lead = await one(scripts.archive_lease("b", ttl_ms=60_000))
    assert lead.holder == "a" and 0 < lead.ttl_ms <= 60_000
    assert await one(scripts.archive_leader()) == "a"
    assert await one(scripts.archive_lease("a", ttl_ms=90_000)) == Lead("a", 90_000)


async def test_only_its_holder_gives_it_up(core: Core) -> None:
    scripts, one = ArchiveScripts(core.keys), core.keyspace.one
    await one(scripts.archive_lease("a", ttl_ms=60_000))
    assert (await one(scripts.archive_lease("b", ttl_ms=0))).holder == "a"
    assert await one(scripts.archive_lease("a", ttl_ms=0)) == Lead("", 0)
    assert await one(scripts.archive_lease("b", ttl_ms=60_000)) == Lead("b", 60_000)


async def test_giving_up_what_one_does_not_have_is_no_mistake(core: Core) -> None:
    assert await core.keyspace.one(ArchiveScripts(core.keys).archive_lease("a", ttl_ms=0)) == Lead("", 0)


async def test_a_sweep_is_claimed_once(core: Core) -> None:
    scripts = ArchiveScripts(core.keys)
    claims = [await core.keyspace.one(scripts.archive_sweep(holder)) for holder in ("a", "b", "a")]
    assert claims == [True, False, False]
