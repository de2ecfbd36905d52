"""Acts beside messages in a simulated world: they happen, and a summary that the log does not say is noticed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidings.messaging.summaries import Summary
from tidings.messaging.threads.threads import ThreadPage
from tidings.model import Content, Entry
from tidings.stores.tables.records import Record
from tidings_proof.simulation.beside import check_beside, check_threads
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World


def test_people_mention_react_and_send_what_counts_for_nobody() -> None:
    """Six worlds at least, and more until all acts were seen: a seed promises none of them."""
    kinds, wanted = set[str](), {"reaction", "mention", "silent", "reply"}
    for seed in range(60):
        if seed >= 6 and wanted <= kinds:
            break
        world = World(seed, Plan.odd(seed, "beside"))
        assert world.play() == []
        kinds |= {kind for (kind,) in world.rows("SELECT kind FROM messages")}
        kinds |= {"mention" for _ in world.rows("SELECT 1 FROM messages WHERE mentions IS NOT NULL")}
        kinds |= {"reply" for _ in world.rows("SELECT 1 FROM messages WHERE thread_seq IS NOT NULL")}
        kinds |= {"silent" for _ in world.rows("SELECT 1 FROM messages WHERE kind = 'message' AND is_uncounted")}
    assert wanted <= kinds


async def test_a_summary_that_the_log_does_not_say_is_noticed() -> None:
    entries = [
        Entry("c", 1, "message", 1, "m", "ann", content=Content("hi")),
        Entry("c", 2, "reaction", 2, target_seq=1, content=Content(reactions=(("+1", ("ann", "bob"), ()),))),
        Entry("c", 3, "reaction", 3, target_seq=1, content=Content(reactions=(("+1", (), ("bob",)),))),
        Entry("c", 4, "pin", 4, target_seq=1, content=Content(pinned=True)),
    ]
    for summary, is_noted in (
        (Summary({"+1": ["ann"]}, 3, True), False),
        (Summary({"+1": ["ann", "bob"]}, 3, True), True),
        (Summary({"+1": ["ann"]}, 3, False), True),
    ):
        noted: list[str] = []

        async def read(conversation_id: str, seq_no: int, summary: Summary = summary) -> tuple[Summary, int]:
            return summary, 1

        node: Any = SimpleNamespace(core=SimpleNamespace(summaries=SimpleNamespace(read=read)))
        world: Any = SimpleNamespace(note=noted.append)
        await check_beside(world, node, "c", entries)
        assert bool(noted) == is_noted


async def test_a_thread_that_the_log_does_not_say_is_noticed() -> None:
    entries = [Entry("c", 1, "message", 1), Entry("c", 2, "message", 2, thread_seq=1)]
    for value, unread_threads, is_noted in (
        (b'{"replies":1}', 0, False),
        (b"{}", 0, True),
        (b'{"replies":1}', 1, True),
    ):
        noted: list[str] = []

        async def get(owner: str, collection: str, names: list[str], value: bytes = value) -> dict[str, Record]:
            return {name: Record(owner, collection, name, value, 1) for name in names}

        async def page(user_id: str, unread: int = unread_threads, **fields: Any) -> ThreadPage:
            return ThreadPage([], None, unread)

        records, threads = SimpleNamespace(get=get), SimpleNamespace(page=page)
        node: Any = SimpleNamespace(core=SimpleNamespace(tables=SimpleNamespace(records=records), threads=threads))
        world: Any = SimpleNamespace(note=noted.append, plan=SimpleNamespace(people=("ann",)))
        await check_threads(world, node, "c", entries)
        assert bool(noted) == is_noted
