"""Families of keys: for each kind of key its type, its normal number of entries and the normal bytes of an entry.

The table repeats docs/inside/keyspace.md for the view of a server from outside. A test compares it with keys.py, so a
new key cannot be forgotten. Every key of Tidings may be removed at any time and is made again, so `UNLINK` is always a
fix; `if_large` says what it loses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from tidings import bounds
from tidings.config.settings import Settings

LISTPACK_ENTRIES = 128  # Valkey packs this many in one piece by default; a longer key becomes a skiplist or a hashtable
INBOX_ENTRIES = 100_000  # the largest inbox of the design


class Family(msgspec.Struct, frozen=True):
    """One kind of key. In `pattern` {} is an id in braces, * any text, # a number."""

    name: str
    pattern: str
    type: str
    entries_max: int  # more is not normal
    entry_bytes_max: int  # more, with many entries, is not normal
    what: str
    if_large: str  # the reason for a large key, or the cost of removing it

    def regex(self, prefix: str) -> re.Pattern[str]:
        body = re.escape(self.pattern).replace(r"\{\}", r"\{[^}]*\}").replace(r"\*", ".*").replace(r"\#", r"\d+")
        return re.compile(re.escape(prefix) + body + r"\Z")


FOREIGN = Family(
    name="not ours",
    pattern="*",
    type="",
    entries_max=bounds.DOCTOR_FOREIGN_ENTRIES_MAX,
    entry_bytes_max=1 << 20,
    what="a key that Tidings did not make",
    if_large="it shares this server, and a command that walks it stops every node",
)
_AGAIN = "it is made again from the tables"
_ALIEN = f"one entry a member, so something else writes here; {_AGAIN}"
_STUCK = "no worker takes from it: does a node run, and do the push providers answer (tidings_push_total)?"


def families(settings: Settings) -> tuple[Family, ...]:
    """Every kind of key, with the limits from these settings."""
    return (
        *_of_users(settings.unread.cap),
        *_of_conversations(settings.members_max, settings.unread.cap),
        *_of_nodes(),
        *_of_figures(),
    )


def _of_users(cap: int) -> tuple[Family, ...]:
    marks, devices = 3 * INBOX_ENTRIES, 2 * bounds.DEVICES_REMEMBERED_MAX + 1
    kept = cap + cap // 10 + 100  # it is trimmed from time to time, not at each write
    return (
        Family("inbox", "inbox:{}", "zset", INBOX_ENTRIES, 260, "a user's conversations by time", _AGAIN),
        Family("filter", "inbox:{}:*", "zset", INBOX_ENTRIES, 260, "a filter of a user's inbox", _AGAIN),
        Family("mark", "mark:{}*", "hash", marks, 400, "what a user has read, also by thread", _AGAIN),
        Family("unread", "unread:{}:*", "zset", kept, 120, "a user's unread in one conversation", _AGAIN),
        Family("ws", "ws:{}", "zset", 1_000, 200, "a user's live connections", "a program, not a person"),
        Family("session", "session:{}", "hash", devices, 300, "a user's devices", "only last_seen is lost"),
        Family("rate", "rate:{}:*", "zset", 100_000, 200, "a user's requests in a window", "a large budget"),
        Family("acks", "acks:{}", "hash", 20_000, 300, "what a user's devices have", "a device may be told twice"),
        Family("days", "days:{}", "string", 2_000, 8, "a user's active days, a bit each", "only a figure is lost"),
    )


def _of_conversations(members_max: int, cap: int) -> tuple[Family, ...]:
    members, tallied = members_max + 1, 2 * cap + 1_000
    return (
        Family("conv", "conv:{}", "hash", 100, 300, "a conversation's counter", "it is seeded from the log"),
        Family("sent", "sent:{}:#", "hash", 100_000, 300, "message ids of ten minutes", "the table's dedupe answers"),
        Family("slow", "slow:{}:*", "string", 1_000, 8, "a member whom slow mode holds", "one message more may pass"),
        Family("delivered", "delivered:{}", "zset", members, 200, "how far each member has received", _ALIEN),
        Family("readby", "readby:{}", "zset", members, 200, "how far each member has read", _ALIEN),
        Family("tally", "tally:{}", "hash", 100, 300, "the state of a large conversation's index", _AGAIN),
        Family("tally_set", "tally:{}:*", "zset", 20 * tallied, 400, "messages of a large conversation", _AGAIN),
        Family("rev", "rev:{}", "string", 1_000, 8, "the last change of a large conversation's index", _AGAIN),
        Family("watch", "watch:{}", "zset", 1_000, 200, "nodes with watchers", "it is announced again"),
    )


def _of_nodes() -> tuple[Family, ...]:
    jobs, dead = bounds.PUSH_JOBS_MAX + bounds.PUSH_JOBS_MAX // 10, 2 * bounds.PUSH_DEAD_MAX
    samples = 2 * bounds.SAMPLES_MAX
    return (
        Family("nodes", "nodes", "zset", 1_000, 200, "live nodes", "dead ones are taken off by the others"),
        Family("samples", "samples:{}", "stream", samples, 4_000, "a node's figures", "the charts begin anew"),
        Family("open", "open:{}", "set", 100_000, 200, "where a node is at work", "another node finishes it"),
        Family("due", "due:{}", "zset", 1_000_000, 260, "conversations with something to acknowledge", _STUCK),
        Family("push", "push:{}", "stream", jobs, 1_000, "push jobs", _STUCK),
        Family("later", "later:{}", "zset", jobs, 1_000, "push jobs to try again", _STUCK),
        Family("archive", "archive", "string", 1_000, 8, "who archives", "it is taken again within a minute"),
        Family("archive:swept", "archive:swept", "string", 1_000, 8, "who looks for orphans", "it is taken again"),
        Family("timed", "timed:{}", "string", 1_000, 8, "who does timed work", "it is taken again at once"),
        Family("push:dead", "push:dead", "stream", dead, 2_000, "push jobs given up", "the reasons are in it"),
    )


def _of_figures() -> tuple[Family, ...]:
    events, dead = bounds.AUDIT_ENTRIES_MAX + bounds.AUDIT_ENTRIES_MAX // 10, 2 * bounds.AUDIT_DEAD_MAX
    sums = bounds.AUDIT_SUMS_MAX + 100
    return (
        Family("audit", "audit:{}", "stream", events, 1_000, "rejects and actions", "it is trimmed as it is written"),
        Family("audit_dead", "audit_dead:{}", "stream", dead, 2_000, "events nobody could count", "only a record"),
        Family(
            "audit_sums", "audit_sums:{}:#", "hash", sums, 300, "sums of one minute", "the figure can be folded again"
        ),
        Family("audit_flush", "audit_flush:{}:*", "string", 1_000, 8, "a node's last flush", "it lasts an hour"),
        Family("blocks", "blocks_changed:{}", "zset", 10_000, 150, "blocks changed lately", "it lasts a minute"),
        Family("traffic", "traffic:{}:#", "hash", 100, 100, "what all nodes counted in an hour", "it lasts a day"),
        Family("active", "active:{}:*", "string", 16_384, 2, "who was there on a day, estimated", "12 KiB at most"),
    )


class Sorter:
    """Finds the family of a key."""

    def __init__(self, known: Iterable[Family], prefix: str) -> None:
        self._prefix = prefix
        self._by_word: dict[str, list[tuple[re.Pattern[str], Family]]] = {}
        for family in known:
            word = family.pattern.partition(":")[0]
            self._by_word.setdefault(word, []).append((family.regex(prefix), family))

    def family_of(self, key: str) -> Family:
        word = key.removeprefix(self._prefix).partition(":")[0]
        for pattern, family in self._by_word.get(word, ()):
            if pattern.match(key):
                return family
        return FOREIGN
