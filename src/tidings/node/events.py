"""Events: what happens inside a node, each named once, with its source and the parts that listen.

They are made before any part. A part that causes an event gets that event alone as a constructor argument; graph.py
and node.py add the listeners. So no part is changed after it was built, and no call goes up the import direction but
through here. A listener is called at once, in the turn of its source, and must not block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidings.messaging.access import MemberList
from tidings.model import Entry
from tidings.tasks import AwaitedListeners, Listeners

Raised = Sequence[tuple[str, str, int, int]]  # conversation_id, user_id, delivered_seq, read_seq


@dataclass(frozen=True)
class Events:
    # unread -> receipts: (user_id, conversation_id, seq_no) a member has read up to here, and the tables have it.
    read_up_to: Listeners[[str, str, int]] = field(default_factory=Listeners)
    # unread -> push: (user_id) the user's counts have changed, so a badge on a phone may be out of date.
    unread_changed: Listeners[[str]] = field(default_factory=Listeners)
    # receipts -> push: receipts were stored, so no push waits any more for the entries up to them.
    receipts_stored: Listeners[[Raised]] = field(default_factory=Listeners)
    # routing -> deliver: (user_id, conversation_id, node_id) counts of that node went to devices here.
    counts_pushed: Listeners[[str, str, str]] = field(default_factory=Listeners)
    # routing -> gateway: (user_id) another node revoked the user's tokens, so remembered ones are out of date.
    user_revoked: Listeners[[str]] = field(default_factory=Listeners)
    # heartbeat -> gateway: (user_id) a publish for the user may have passed this node by, a revocation among them.
    may_have_missed: AwaitedListeners[[str]] = field(default_factory=AwaitedListeners)
    # access -> deliver: (old, new) this node has a newer member list of a conversation, and somebody may be leaving.
    list_replaced: Listeners[[MemberList, MemberList]] = field(default_factory=Listeners)
    # heartbeat -> node: an operator wants this node to leave.
    leave_requested: Listeners[[]] = field(default_factory=Listeners)
    # keyspace -> send, push: (old, new) a primary has begun another life, and may have lost its latest writes.
    epoch_changed: Listeners[[str, str]] = field(default_factory=Listeners)
    # keyspace of the queues -> push: the same for that keyspace, where it is another. Queued jobs may be lost.
    queues_epoch_changed: Listeners[[str, str]] = field(default_factory=Listeners)
    # gateway -> dev: (user_id) the page of --dev signs this user in.
    signed_in_on_page: Listeners[[str]] = field(default_factory=Listeners)
    # pipeline -> search: (conversation_id, entries) these entries are in the log now.
    entries_stored: Listeners[[str, Sequence[Entry]]] = field(default_factory=Listeners)
    # store -> webhooks: (conversation_id) entries were stored for which webhooks wait.
    news_stored: Listeners[[str]] = field(default_factory=Listeners)
