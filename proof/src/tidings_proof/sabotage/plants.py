"""Mistakes planted on purpose, to prove that the checker finds them: each is switched on in a node of its own.

A plant changes a few lines of a running node (planted.py calls it before the node starts) into what a plausible
mistake would have them be, and says by which promises it must be caught and under which faults. Production code knows
nothing of it. tests/proof/sabotage/test_plants.py plants each of them and holds the verdict to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidings_proof.people.workload import RATE
from tidings_proof.sabotage import agents as plants_agents
from tidings_proof.sabotage import beside as plants_beside
from tidings_proof.sabotage import finding as plants_finding
from tidings_proof.sabotage import keyspace as plants_keyspace
from tidings_proof.sabotage import log as plants_log
from tidings_proof.sabotage import people as plants_people


class Plant(NamedTuple):
    about: str
    plant: Callable[[], None]
    caught_by: frozenset[str]  # at least one of these
    faults: tuple[str, ...] = ()  # what brings it to light
    seconds: float = 8.0
    ways: tuple[str, ...] = ()  # how rude people must be to meet it
    users: int = 8
    rate: float = RATE


def _plant(
    about: str,
    plant: Callable[[], None],
    caught_by: str,
    *faults: str,
    seconds: float = 8.0,
    ways: tuple[str, ...] = (),
    users: int = 8,
    rate: float = RATE,
) -> Plant:
    return Plant(about, plant, frozenset(caught_by.split()), faults, seconds, ways, users, rate)


PLANTS: dict[str, Plant] = {
    # the log
    "unconditional-put": _plant(
        "a row is put whether or not its slot is taken", plants_log.unconditional_put, "I1 I3", "counters-back"
    ),
    "counter-from-nothing": _plant(
        "a counter that is missing begins at one",
        plants_log.counter_from_nothing,
        "I1 I3",
        "keyspace-flush",
        "keyspace-evict",
        "counter-lost",
    ),
    "ack-before-commit": _plant(
        "the sender hears ok before the row is durable", plants_log.ack_before_commit, "I1", "node-kill"
    ),
    "ack-without-row": _plant(
        "an id that has a number is taken for stored", plants_log.ack_without_row, "I1", "tables-failing"
    ),
    "no-dedupe": _plant("a resend is stored again", plants_log.no_dedupe, "I2"),
    "another-number": _plant("a resend is answered with another number", plants_log.another_number, "I1 I2"),
    "past-open-slots": _plant(
        "history steps over numbers without a row",
        plants_log.past_open_slots,
        "I4 I5",
        "node-kill-midway",
        seconds=12.0,
        ways=("vanish", "leave_politely"),
        rate=20.0,
    ),
    "no-holds": _plant(
        "a later send passes one that was refused",
        plants_log.no_holds,
        "I7",
        "tables-failing",
        seconds=10.0,
        ways=("flood",),
        rate=6.0,
    ),
    "delete-keeps-text": _plant("a deleted message keeps its text", plants_log.delete_keeps_text, "I17"),
    "archive-unverified": _plant(
        "texts leave their rows before the object is known to be good",
        plants_log.archive_unverified,
        "I17 I6",
        "archiver-race",
    ),
    "clock-is-trusted": _plant(
        "an entry has the server's time, although that went back",
        plants_log.clock_is_trusted,
        "I4",
        "keyspace-failover-back",
        "keyspace-clock",
        seconds=10.0,
    ),
    "hot-is-stored": _plant(
        "a throttled group is taken for stored", plants_log.hot_is_stored, "I1 I4 I5", "tables-hot", seconds=10.0
    ),
    # the index
    "settings-forgotten": _plant(
        "counts of another cap and policy are believed",
        plants_keyspace.settings_forgotten,
        "I11",
        "settings-changed",
        seconds=20.0,
        users=4,
    ),
    "inbox-without-gt": _plant("an older message moves a conversation down", plants_keyspace.inbox_without_gt, "I12"),
    "unread-by-adding": _plant("unread is counted by adding one", plants_keyspace.unread_by_adding, "I11"),
    "half-the-members": _plant("a part of the fan-out is dropped", plants_keyspace.half_the_members, "I11 I12 I10"),
    "old-life-believed": _plant(
        "counts of another life of the keyspace are believed",
        plants_keyspace.old_life_believed,
        "I11 I12",
        "keyspace-failover",
        seconds=10.0,
    ),
    "work-never-cleared": _plant("finished work stays listed as open", plants_keyspace.work_never_cleared, "I16"),
    "cursor-goes-back": _plant(
        "an older read mark lowers the cursor",
        plants_keyspace.cursor_goes_back,
        "I11",
        users=4,
        rate=20.0,
        seconds=14.0,
    ),
    # beside the messages
    "mentions-uncounted": _plant("a mention counts as a plain message", plants_beside.mentions_uncounted, "I11"),
    "pinned-unlisted": _plant(
        "the index forgets that a conversation is pinned", plants_beside.pinned_unlisted, "I25 I12", seconds=10.0
    ),
    "blocked-counted": _plant(
        "messages of a blocked person are counted", plants_beside.blocked_counted, "I22", seconds=14.0
    ),
    "reactions-stay": _plant(
        "a reaction that was taken away is shown", plants_beside.reactions_stay, "I24", seconds=14.0
    ),
    "ended-text-logged": _plant(
        "the text of a message that has ended is written to a log", plants_beside.ended_text_logged, "I21", seconds=10.0
    ),
    # threads, files and search
    "half-the-followers": _plant(
        "every second follower of a thread is passed over", plants_finding.half_the_followers, "I26", seconds=12.0
    ),
    "open-files": _plant("a link to a file asks for no membership", plants_finding.open_files, "I27", seconds=12.0),
    "index-sleeps": _plant("the index of the search does not follow the log", plants_finding.index_sleeps, "I28"),
    # programs
    "webhook-moves-on": _plant(
        "a webhook moves on though its endpoint did not take the entries", plants_agents.webhook_moves_on, "I19"
    ),
    "stream-ends-early": _plant("the end of a streamed text is lost", plants_agents.stream_ends_early, "I20"),
    "schedule-forgotten": _plant("a scheduled message is never sent", plants_agents.schedule_forgotten, "I23"),
    # people
    "resume-skips-one": _plant("a resume leaves the first entry out", plants_people.resume_skips_one, "I5"),
    "newest-first": _plant("entries of a batch are pushed in reverse", plants_people.newest_first, "I5"),
    "registry-by-user": _plant(
        "a device that goes takes its user's leases with it", plants_people.registry_by_user, "I6"
    ),
    "anybody-sends": _plant(
        "a sender is not looked up among the members", plants_people.anybody_sends, "I14 I3", "strangers-flood"
    ),
    "open-door": _plant("one endpoint does not ask for membership", plants_people.open_door, "I14"),
    "members-for-ever": _plant("who left is still sent to", plants_people.members_for_ever, "I14", "members-churn"),
    "ticks-by-themselves": _plant("delivered is said without a receipt", plants_people.ticks_by_themselves, "I13"),
    "files-leak": _plant("a node keeps files open", plants_people.files_leak, "I15"),
}
