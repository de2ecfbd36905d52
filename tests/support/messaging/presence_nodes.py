"""Nodes without sockets that tell each other about typing and presence, and screens that show what they are told."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tidings.bounds import AWAY_S, LIVE_STATUS_TASKS_MAX, TYPING_S, WATCH_RENEW_S
from tidings.clock import Clock
from tidings.config.settings import Node, Settings
from tidings.errors import Close
from tidings.messaging.presence.live_status import LiveStatus
from tidings.messaging.presence.presence import Presences
from tidings.messaging.presence.typing_status import TypingStatus
from tidings.messaging.presence.watchers import Watchers
from tidings.node import graph
from tidings.pushes import Event, Presence, Typing
from tidings.routing.bus import Item, Joined, Signal
from tidings.tasks import TaskSet

_numbers = itertools.count(1)


class Screen:
    """A connection that keeps what it is given."""

    def __init__(self, user_id: str, device: str | None = None) -> None:
        self.user_id = user_id
        self.connection_id = f"connection-{next(_numbers)}"
        self.device = device
        self.opened_s = time.monotonic()
        self.events: list[Event] = []

    def push(self, event: Event) -> None:
        self.events.append(event)

    def push_now(self, event: Event) -> None:
        self.events.append(event)

    def close(self, code: Close, reason: str = "") -> None: ...

    async def drained(self) -> None: ...

    def typing(self) -> list[tuple[str, bool]]:
        return [(event.user_id, event.typing) for event in self.events if isinstance(event, Typing)]

    def presence(self) -> list[tuple[str, bool]]:
        return [(event.user_id, event.online) for event in self.events if isinstance(event, Presence)]

    def of(self, user_id: str) -> list[Presence]:
        return [event for event in self.events if isinstance(event, Presence) and event.user_id == user_id]


class PresenceNode:
    """A core with presence and typing on top."""

    def __init__(self, core: graph.Core, away_s: float, typing_s: float, renew_s: float) -> None:
        self.core = core
        self.tasks = TaskSet(LIVE_STATUS_TASKS_MAX)
        self.watchers = Watchers(
            access=core.access,
            sight=core.sight,
            hub=core.hub,
            registry=core.registry,
            bus=core.bus,
            keyspace=core.keyspace,
            keys=core.keys,
            node_id=core.settings.node.id,
        )
        self.typing_status = TypingStatus(core.access, self.watchers, self.tasks, core.clock, typing_s=typing_s)
        self.presences = Presences(
            access=core.access,
            sight=core.sight,
            watchers=self.watchers,
            hub=core.hub,
            registry=core.registry,
            keyspace=core.keyspace,
            keys=core.keys,
            tasks=self.tasks,
            away_s=away_s,
        )
        self.live_status = LiveStatus(self.watchers, self.typing_status, self.presences, self.tasks, renew_s=renew_s)
        self.is_deaf = False  # what others publish is lost

    def take(self, item: Item, node_id: str) -> None:
        if isinstance(item, Signal) and not self.is_deaf:
            self.live_status.take(item)
        elif isinstance(item, Joined):
            self.core.registry.node_joined(item.node_id)

    async def connect(self, user_id: str, device: str | None = None) -> Screen:
        screen = Screen(user_id, device)
        assert self.core.hub.attach(screen)
        await self.core.registry.claim(screen)
        await self.core.unread.totals(user_id)  # as for hello: the inbox is built from here on
        self.live_status.came(screen)
        return screen

    def disconnect(self, screen: Screen) -> None:
        self.core.hub.detach(screen)
        self.core.registry.release(screen)
        self.live_status.went(screen)

    async def watcher(self, user_id: str, *conversation_ids: str) -> Screen:
        """Connected, watching, and its screen empty."""
        screen = await self.connect(user_id)
        await self.live_status.watch(screen, conversation_ids)
        screen.events.clear()
        return screen

    async def group(self, user_id: str, *members: str) -> str:
        view, _ = await self.core.directory.create(user_id, kind="group", members=members, name="crew")
        return view.head.conversation_id


@asynccontextmanager
async def open_presence_node(
    settings: Settings,
    node_id: str = "n1",
    *,
    clock: Clock | None = None,
    away_s: float = AWAY_S,
    typing_s: float = TYPING_S,
    renew_s: float = WATCH_RENEW_S,
) -> AsyncIterator[PresenceNode]:
    async with graph.open_core(dataclasses.replace(settings, node=Node(id=node_id)), clock) as core:
        node = PresenceNode(core, away_s, typing_s, renew_s)
        await core.bus.open(node.take, lambda: None)
        try:
            await core.registry.renew_node()
            yield node
        finally:
            await node.live_status.close()
            await core.bus.close()


@asynccontextmanager
async def open_presence_nodes(settings: Settings, **times: float) -> AsyncIterator[Sequence[PresenceNode]]:
    """Two that know of each other."""
    async with AsyncExitStack() as stack:
        opened = [open_presence_node(settings, name, **times) for name in ("n1", "n2")]  # type: ignore[arg-type]
        nodes = [await stack.enter_async_context(one) for one in opened]
        for node in nodes:
            await node.core.registry.renew_node()
            assert node.core.registry.has_others
        yield nodes
