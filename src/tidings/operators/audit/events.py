"""Audit events: refused requests, failed sign-ins, revocations, and actions of admins, for the operator.

Events that are alike are counted and written together, ten times a second, as entries of a capped stream: a flood
becomes a few entries a second. No request waits for the audit. No event is counted twice: a flush with a lost answer is
sent again under the same token, and the script ignores a token that it knows. Nothing runs while nothing happens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.stores.keyspace.call import Keyspace, each_alone
from tidings.stores.keyspace.scripts.audit import AuditScripts, audit_shard
from tidings.tasks import Loop

Kind = Literal["reject", "sign_in", "revocation", "admin"]
OTHERS = "*"  # the user of events that are too many to be kept apart
NOBODY = "-"  # the user of an event without a user, such as a failed sign-in
_AGAIN_S = 1.0  # the next try after a store did not answer


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"class_name": "class"}):
    """One entry. `class_name` is the class of a refused request, or the action that was tried or done."""

    kind: Kind
    class_name: str
    user_id: str
    count: int = 1
    node: str = ""
    by: str = ""  # the actor: the name of an API key, or the command line
    detail: str = ""

    @property
    def field(self) -> str:
        """The name under which its count is summed. Ids and classes have no colon."""
        return f"{self.kind}:{self.class_name}:{self.user_id}"


_encode = msgspec.json.Encoder().encode
_Counts = dict[tuple[Kind, str, str], int]


class _Shard:
    """The events that wait for one stream."""

    def __init__(self) -> None:
        self.counts: _Counts = {}
        self.actions: deque[Event] = deque(maxlen=bounds.AUDIT_ACTIONS_MAX)
        self.token = ""
        self.sending: list[bytes] = []  # not confirmed: sent again unchanged


class Audit:
    """`count_reject(class, n)` counts refused requests for the metrics."""

    def __init__(
        self,
        keyspace: Keyspace,
        scripts: AuditScripts,
        clock: Clock,
        node_id: str,
        count_reject: Callable[[str, int], None] = lambda class_name, n: None,
    ) -> None:
        self._count_reject = count_reject
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        self._node_id = node_id
        self._shards = [_Shard() for _ in range(bounds.AUDIT_SHARDS)]
        self._is_waking = False  # a flush comes soon
        self.loop = Loop("audit", _AGAIN_S, self.flush, at_end=self._flush_all)

    # --- recording; nothing here blocks -----------------------------------------------------------

    def rejected(self, class_name: str, user_id: str, count: int = 1) -> None:
        """Record requests of the user that the limiter refused, or that were held behind a refused send."""
        self._count("reject", class_name, user_id, count)
        self._count_reject(class_name, count)

    def sign_in_failed(self, way: str) -> None:
        """Record a failed sign-in by `ws`, `http` or `operator`. No user is kept: a bad token may name anybody."""
        self._count("sign_in", way, NOBODY, 1)

    def revoked(self, user_id: str, by: str) -> None:
        self._act(Event("revocation", "revoke", user_id, node=self._node_id, by=by))

    def acted(self, action: str, by: str, *, user_id: str = NOBODY, detail: str = "") -> None:
        """Record that an admin changed something."""
        self._act(Event("admin", action, user_id, node=self._node_id, by=by, detail=detail))

    def _count(self, kind: Kind, class_name: str, user_id: str, count: int) -> None:
        counts = self._shards[audit_shard(user_id)].counts
        key = (kind, class_name, user_id)
        if key not in counts and len(counts) >= bounds.AUDIT_NOTES_MAX:
            key = (kind, class_name, OTHERS)
        counts[key] = counts.get(key, 0) + count
        self._wake()

    def _act(self, event: Event) -> None:
        self._shards[audit_shard(event.user_id)].actions.append(event)
        self._wake()

    def _wake(self) -> None:
        """Flush after AUDIT_FLUSH_S, with everything that is recorded until then."""
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_later(bounds.AUDIT_FLUSH_S, self._flush_now)

    def _flush_now(self) -> None:
        self._is_waking = False
        self.loop.nudge()

    # --- writing ----------------------------------------------------------------------------------

    async def _flush_all(self) -> None:
        while await self.flush():
            pass

    async def flush(self) -> int:
        """Write the waiting events and return the number of entries. Raises StoreError: the events are kept."""
        ready = [(number, shard) for number, shard in enumerate(self._shards) if self._gather(shard)]
        if not ready:
            return 0
        calls = [self._scripts.audit_add(number, self._node_id, one.token, one.sending) for number, one in ready]
        written = [ready[at][1] for at in await each_alone(self._keyspace, calls)]
        entries = sum(len(shard.sending) for shard in written)
        for shard in written:
            shard.sending = []
        if any(shard.counts or shard.actions for shard in self._shards):
            self._wake()
        return entries

    def _gather(self, shard: _Shard) -> bool:
        """Choose the next entries: those without an answer first, else new ones. False: there are none."""
        if not shard.sending and (shard.counts or shard.actions):
            shard.token = self._clock.random_id(8)
            acted = [shard.actions.popleft() for _ in range(min(len(shard.actions), bounds.AUDIT_FLUSH_MAX // 2))]
            keys = list(islice(shard.counts, bounds.AUDIT_FLUSH_MAX // 2))
            counted = [Event(*key, count=shard.counts.pop(key), node=self._node_id) for key in keys]
            shard.sending = [_encode(event) for event in (*acted, *counted)]
        return bool(shard.sending)
