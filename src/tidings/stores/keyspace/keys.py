"""The name, slot and life of every key. Braces are cluster hash tags: all keys of a user share a slot, all keys of a
conversation share a slot, and no script spans both. The page keyspace.md repeats this table.

Ids never contain braces (ids.is_id), so a key cannot be forged through an id. Only user ids may contain colons, and
a user id stands between braces or at the end.
"""

from __future__ import annotations


class Keys:
    """Builds keys under one tenant's prefix."""

    def __init__(self, prefix: str = "") -> None:
        assert "{" not in prefix and "}" not in prefix
        self.prefix = prefix
        self.nodes = f"{prefix}nodes"  # zset node -> lease expiry ms; each node renews itself
        self.push_dead = f"{prefix}push:dead"  # stream of jobs that were given up. MAXLEN ~ PUSH_DEAD_MAX
        self.archive = f"{prefix}archive"  # string: the archiver that leads. TTL ARCHIVE_LEASE_S
        self.archive_swept = f"{prefix}archive:swept"  # string: the node that lists the objects. TTL ARCHIVE_SWEEP_S
        self._inbox = prefix + "inbox:{"
        self._mark = prefix + "mark:{"
        self._unread = prefix + "unread:{"
        self._ws = prefix + "ws:{"
        self._rate = prefix + "rate:{"
        self._conv = prefix + "conv:{"
        self._sent = prefix + "sent:{"
        self._delivered = prefix + "delivered:{"
        self._readby = prefix + "readby:{"
        self._session = prefix + "session:{"
        self._watch = prefix + "watch:{"

    # one user: one slot
    def inbox(self, user_id: str) -> str:
        """zset: conversation_id -> sent_ms of the last message. TTL INDEX_TTL_S."""
        return self._inbox + user_id + "}"

    def filter(self, user_id: str, name: str) -> str:
        """zset: the conversations of the inbox that one filter shows: unread, mentions, muted, archived or pinned. Lua
        makes the name too (parts/mark.lua). TTL INDEX_TTL_S."""
        return f"{self._inbox}{user_id}}}:{name}"

    def mark(self, user_id: str) -> str:
        """hash: conversation_id -> packed mark, and the user's own fields (see scripts/). TTL INDEX_TTL_S."""
        return self._mark + user_id + "}"

    def unread(self, user_id: str, conversation_id: str) -> str:
        """zset: seq_no -> seq_no, the unread messages. Cap and TTL are settings."""
        return f"{self._unread}{user_id}}}:{conversation_id}"

    def ws(self, user_id: str) -> str:
        """zset: node:connection -> lease expiry ms; those of a dead node stay, as expired. TTL INDEX_TTL_S."""
        return self._ws + user_id + "}"

    def session(self, user_id: str) -> str:
        """hash: device -> the lease it last had and when it was last seen; `*`: when any was. TTL INDEX_TTL_S."""
        return self._session + user_id + "}"

    def rate(self, user_id: str, class_name: str) -> str:
        """zset: unique per request -> arrival us. TTL = the window."""
        return f"{self._rate}{user_id}}}:{class_name}"

    def acks(self, user_id: str) -> str:
        """hash: device:conversation -> seq it has or was notified of, device -> its badge. TTL ACKS_TTL_S."""
        return f"{self.prefix}acks:{{{user_id}}}"

    def days(self, user_id: str) -> str:
        """bitmap: one bit per day since 1 January 2025, set when the user was there. TTL DAYS_TTL_S."""
        return f"{self.prefix}days:{{{user_id}}}"

    # one conversation: one slot
    def conv(self, conversation_id: str) -> str:
        """hash: seq, at, epoch, counter_id, members_seq, deleted_seq, summaries, and open:<node> -> the seq range
        that node has under way."""
        return self._conv + conversation_id + "}"

    def sent(self, conversation_id: str, generation: int) -> str:
        """hash: sender:message_id -> seq:at. One generation of SENT_GENERATION_S; TTL two generations."""
        return f"{self._sent}{conversation_id}}}:{generation}"

    def slow(self, conversation_id: str, user_id: str) -> str:
        """string: the last message_id of a member, while slow mode lets no other pass. TTL slow_s."""
        return f"{self.prefix}slow:{{{conversation_id}}}:{user_id}"

    def delivered(self, conversation_id: str) -> str:
        """zset: user_id -> delivered_seq. TTL INDEX_TTL_S."""
        return self._delivered + conversation_id + "}"

    def readby(self, conversation_id: str) -> str:
        """zset: user_id -> read_seq. TTL INDEX_TTL_S."""
        return self._readby + conversation_id + "}"

    def tally(self, conversation_id: str) -> str:
        """hash: the state of the index of a large conversation. TTL INDEX_TTL_S."""
        return f"{self.prefix}tally:{{{conversation_id}}}"

    def tally_set(self, conversation_id: str, name: str) -> str:
        """zset: its messages (`seq`), the same by people (`who`), and those deleted while it was built (`gone`). Lua
        makes the name too (parts/tally.lua). TTL INDEX_TTL_S."""
        return f"{self.tally(conversation_id)}:{name}"

    def rev(self, conversation_id: str) -> str:
        """string: the name of the last change of a tally. TTL INDEX_TTL_S."""
        return f"{self.prefix}rev:{{{conversation_id}}}"

    def watch(self, conversation_id: str) -> str:
        """zset: node with connections that watch it -> until when, ms. TTL WATCH_S."""
        return self._watch + conversation_id + "}"

    # one node
    def bus(self, node_id: str) -> str:
        """channel (not a key): what other nodes have for this one."""
        return f"{self.prefix}bus:{{{node_id}}}"

    @property
    def bus_of_all(self) -> str:
        """channel (not a key): what a node has for every node that listens."""
        return f"{self.prefix}bus"

    def open(self, node_id: str) -> str:
        """set of conversations in which the node has numbers under way."""
        return f"{self.prefix}open:{{{node_id}}}"

    def samples(self, node_id: str) -> str:
        """stream of what the node has counted, one entry per SAMPLE_S. MAXLEN SAMPLES_MAX; TTL SAMPLES_TTL_S."""
        return f"{self.prefix}samples:{{{node_id}}}"

    # one shard: one slot
    def due(self, shard: int) -> str:
        """zset: conversation_id -> when to check its receipts, ms; and one member with its birth at +inf."""
        return f"{self.prefix}due:{{{shard}}}"

    def push(self, shard: int) -> str:
        """stream of push jobs with the consumer group `notify`. MAXLEN ~ PUSH_JOBS_MAX; finished jobs are deleted."""
        return f"{self.prefix}push:{{{shard}}}"

    def audit(self, shard: int) -> str:
        """stream of audit events with the consumer group `fold`. MAXLEN ~ AUDIT_ENTRIES_MAX; TTL AUDIT_TTL_S."""
        return f"{self.prefix}audit:{{{shard}}}"

    def audit_dead(self, shard: int) -> str:
        """stream of audit entries that no worker could count. MAXLEN ~ AUDIT_DEAD_MAX; TTL AUDIT_TTL_S."""
        return f"{self.prefix}audit_dead:{{{shard}}}"

    def audit_sums(self, shard: int, minute: int) -> str:
        """hash: kind:class:user -> how many in this minute; `:folds` counts its changes. TTL AUDIT_SUMS_TTL_S."""
        return f"{self.prefix}audit_sums:{{{shard}}}:{minute}"

    def audit_flush(self, shard: int, node_id: str) -> str:
        """string: the token of what the node appended last. TTL AUDIT_FLUSH_TTL_S."""
        return f"{self.prefix}audit_flush:{{{shard}}}:{node_id}"

    def push_later(self, shard: int) -> str:
        """zset: push job -> when to try again, ms. At most PUSH_JOBS_MAX."""
        return f"{self.prefix}later:{{{shard}}}"

    # everybody: one slot
    @property
    def timed(self) -> str:
        """string: the node that does timed work. TTL TIMED_LEASE_S."""
        return f"{self.prefix}timed:{{all}}"

    def blocks_changed(self) -> str:
        """zset: user whose blocks changed lately -> when, ms. TTL 4 x BLOCKS_CHANGED_S."""
        return f"{self.prefix}blocks_changed:{{all}}"

    def traffic(self, hour: int) -> str:
        """hash: slot and what was counted -> how many, of all nodes in an hour. TTL TRAFFIC_TTL_S."""
        return f"{self.prefix}traffic:{{all}}:{hour}"

    # everybody: one slot, so that several days can be counted together
    def active(self, day: str) -> str:
        """hyperloglog of the users who were there on a day, such as 20261115. TTL ACTIVE_TTL_S."""
        return f"{self.prefix}active:{{all}}:{day}"


class ThreadKeys(Keys):
    """The keys of the index of threads: inbox and mark have `:threads` behind them. The ids are those of threads."""

    def inbox(self, user_id: str) -> str:
        return f"{super().inbox(user_id)}:threads"

    def filter(self, user_id: str, name: str) -> str:
        return f"{self.inbox(user_id)}:{name}"

    def mark(self, user_id: str) -> str:
        return f"{super().mark(user_id)}:threads"
