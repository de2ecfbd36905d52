"""Builds what reaches those who are not there: what is due, the jobs to push, and the providers that push.

`Core.pushing` is one of these; node.py starts and stops its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tidings.config_values import SettingsError
from tidings.messaging.access import Access
from tidings.messaging.acks import Acks
from tidings.messaging.notices import Notices
from tidings.messaging.notify import Notify
from tidings.messaging.pending import Due
from tidings.messaging.unread import Unread
from tidings.opening import Stores
from tidings.stores.ports import Messages
from tidings.stores.ports_push import Push
from tidings.stores.push_open import open_providers
from tidings.stores.scripts_push import PushScripts


class Pushing:
    """`messages` reads texts out of the cold tier too."""

    def __init__(self, stores: Stores, access: Access, messages: Messages, unread: Unread) -> None:
        self._stores = stores
        self._access = access
        self._messages = messages
        self._unread = unread
        self.scripts = PushScripts(stores.keys)

    @cached_property
    def providers(self) -> Mapping[str, Push]:
        try:
            return open_providers(self._stores.settings.push, self._stores.clock)
        except ValueError as error:
            raise SettingsError(str(error)) from None

    @cached_property
    def notify(self) -> Notify:
        stores = self._stores
        has_preview = stores.settings.push.preview
        return Notify(
            keyspace=stores.keyspace,
            scripts=self.scripts,
            acks=Acks(stores.keyspace, stores.keys),
            devices=stores.devices,
            notices=Notices(self._access, self._messages, stores.tables, self._unread, has_preview=has_preview),
            providers=self.providers,
            clock=stores.clock,
            node_id=stores.settings.node.id,
            count=lambda provider, outcome: stores.metrics.push[provider, outcome].inc(),
        )

    @cached_property
    def due(self) -> Due:
        stores = self._stores
        return Due(
            keyspace=stores.keyspace,
            scripts=self.scripts,
            access=self._access,
            tables=stores.tables,
            pending=stores.devices,
            notify=self.notify,
            clock=stores.clock,
            grace_s=stores.settings.push.grace_s,
        )
