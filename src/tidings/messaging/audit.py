"""What is worth keeping for an operator: refused requests, failed sign-ins, revocations, and what admins did.

Events that are alike are counted and written together, ten times a second, as entries of a capped stream: a flood is a
few entries a second, whatever it costs the one who makes it. Nothing waits for it, and nothing is counted twice: a
flush whose answer was lost is sent again under its token. Noted by the limiter's callers and the gateway; audit_fold.py
makes sums of it, audit_read.py shows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.stores.calls import Keyspace, each_alone
from tidings.stores.scripts_audit import AuditScripts, audit_shard

log = logging.getLogger("tidings.audit")

Kind = Literal["reject", "sign_in", "revocation", "admin"]
OTHERS = "*"  # the user of events that are too many to be told apart
NOBODY = "-"  # the user of an event that is nobody's, such as a failed sign-in
HELD = "held"  # the class of sends that wait behind a refused one


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"class_name": "class"}):
    """One entry. `class_name` is the limiter's class of a reject, else what was tried or done."""

    kind: Kind
    class_name: str
    user_id: str
    count: int = 1
    node: str = ""
    by: str = ""  # who did it: an API key's name, or the command line
    detail: str = ""

    @property
    def field(self) -> str:
        """Under what its count is summed up. Ids and classes have no colon."""
        return f"{self.kind}:{self.class_name}:{self.user_id}"


_encode = msgspec.json.Encoder().encode
_Counts = dict[tuple[Kind, str, str], int]


class _Shard:
    """What waits for one stream."""

    def __init__(self) -> None:
        self.counts: _Counts = {}
        self.actions: deque[Event] = deque(maxlen=bounds.AUDIT_ACTIONS_MAX)
        self.token = ""
        self.sending: list[bytes] = []  # not known to be written: sent again as it is


class Audit:
    """`count_reject(class, n)` for the metrics."""

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
        self._task: asyncio.Task[None] | None = None

    # --- what others call; none of it blocks ------------------------------------------------------

    def rejected(self, class_name: str, user_id: str, count: int = 1) -> None:
        """Requests of the user were refused by the limiter, or held behind one that was."""
        self._count("reject", class_name, user_id, count)
        self._count_reject(class_name, count)

    def sign_in_failed(self, way: str) -> None:
        """By `ws`, `http` or `operator`. Whose it was is not kept: the name in a bad token is anybody's."""
        self._count("sign_in", way, NOBODY, 1)

    def revoked(self, user_id: str, by: str) -> None:
        self._act(Event("revocation", "revoke", user_id, node=self._node_id, by=by))

    def acted(self, action: str, by: str, *, user_id: str = NOBODY, detail: str = "") -> None:
        """An admin changed something."""
        self._act(Event("admin", action, user_id, node=self._node_id, by=by, detail=detail))

    def _count(self, kind: Kind, class_name: str, user_id: str, count: int) -> None:
        counts = self._shards[audit_shard(user_id)].counts
        key = (kind, class_name, user_id)
        if key not in counts and len(counts) >= bounds.AUDIT_NOTES_MAX:
            key = (kind, class_name, OTHERS)
        counts[key] = counts.get(key, 0) + count

    def _act(self, event: Event) -> None:
        self._shards[audit_shard(event.user_id)].actions.append(event)

    # --- writing ----------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write(), name="audit")

    async def stop(self) -> None:
        """Writes what is left, if the keyspace takes it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            while await self.flush():
                pass
        except StoreError as error:
            log.warning("some audit events are lost: %s", error)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(bounds.AUDIT_FLUSH_S)
            try:
                await self.flush()
            except StoreError as error:
                log.debug("audit events wait for the keyspace: %s", error)
            except Exception:
                log.exception("writing audit events failed")

    async def flush(self) -> int:
        """Write what was gathered; how many entries are decided now. Raises StoreError: they are kept."""
        ready = [(number, shard) for number, shard in enumerate(self._shards) if self._gather(shard)]
        if not ready:
            return 0
        calls = [self._scripts.audit_add(number, self._node_id, one.token, one.sending) for number, one in ready]
        written = [ready[at][1] for at in await each_alone(self._keyspace, calls)]
        entries = sum(len(shard.sending) for shard in written)
        for shard in written:
            shard.sending = []
        return entries

    def _gather(self, shard: _Shard) -> bool:
        """What goes out next: what is not decided yet, else what is new."""
        if not shard.sending and (shard.counts or shard.actions):
            shard.token = self._clock.random_id(8)
            acted = [shard.actions.popleft() for _ in range(min(len(shard.actions), bounds.AUDIT_FLUSH_MAX // 2))]
            keys = list(islice(shard.counts, bounds.AUDIT_FLUSH_MAX // 2))
            counted = [Event(*key, count=shard.counts.pop(key), node=self._node_id) for key in keys]
            shard.sending = [_encode(event) for event in (*acted, *counted)]
        return bool(shard.sending)
