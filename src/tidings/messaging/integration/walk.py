"""Walk: finds the conversations that were there before a webhook which begins at the start.

The walk goes over the users and their inbox rows, some users at a step. Its place is in the record of the webhook,
whose version admits one node at a time. Another node goes on where a dead one stopped.
"""

from __future__ import annotations

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict
from tidings.messaging.integration.cursors import NEVER_MS
from tidings.messaging.integration.hooks import HOOKS, Hook, Hooks, hook_in, hook_put, is_to_come
from tidings.stores.tables.ports import Inboxes
from tidings.stores.tables.records import Records
from tidings.tasks import Recent


class Walk:
    def __init__(self, hooks: Hooks, records: Records, inboxes: Inboxes, clock: Clock) -> None:
        self._hooks = hooks
        self._records = records
        self._inboxes = inboxes
        self._clock = clock
        self._found = Recent[tuple[str, str], None](bounds.CONVERSATIONS_CACHED_MAX)  # webhook and conversation

    async def step(self) -> bool:
        """Walk on by some users, where a walk is due. True: there is more to walk."""
        found = await self._records.due(HOOKS, until_ms=NEVER_MS, limit=bounds.WEBHOOKS_MAX)  # only those that walk
        for record in [record for record in found if not is_to_come(record.due_ms, self._clock.now_ms())]:
            hook = hook_in(record)
            until_ms = self._clock.now_ms() + round(bounds.WEBHOOK_LEASE_S * 1000)
            try:
                await self._records.put([hook_put(hook, expected=record.version, due_ms=until_ms)])
                walked_to = await self._some_users(hook)
                due_ms = None if walked_to is None else self._clock.now_ms()
                hook = msgspec.structs.replace(hook, walked_to=walked_to)
                await self._records.put([hook_put(hook, expected=record.version + 1, due_ms=due_ms)])
            except Conflict:
                continue  # another node walks, or the webhook was changed: its walk is due again
            return walked_to is not None
        return False

    async def _some_users(self, hook: Hook) -> str | None:
        """Announce the conversations of the next users. Returns the last one; None: there are no more."""
        users = await self._inboxes.users(after_id=hook.walked_to or "", limit=bounds.WEBHOOK_WALK_USERS)
        for user_id in users:
            await self._conversations_of(hook, user_id)
        return users[-1] if len(users) == bounds.WEBHOOK_WALK_USERS else None

    async def _conversations_of(self, hook: Hook, user_id: str) -> None:
        after_id = ""
        while rows := await self._inboxes.scan(user_id, after_id=after_id, limit=bounds.REBUILD_CHUNK):
            ids = [row.conversation_id for row in rows if (hook.webhook_id, row.conversation_id) not in self._found]
            await self._hooks.announce(ids)
            for conversation_id in ids:
                self._found.put((hook.webhook_id, conversation_id), None)
            after_id = rows[-1].conversation_id
