"""Integration: builds the rooms of webhooks and of streamed messages. graph.py calls this in its order."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.gateway.encode import encode_frame, message_of
from tidings.messaging.integration.cursors import Cursors
from tidings.messaging.integration.deliveries import Deliveries
from tidings.messaging.integration.hooks import Hooks
from tidings.messaging.integration.lag import Lag
from tidings.messaging.integration.walk import Walk
from tidings.messaging.log import Log
from tidings.messaging.send.lanes import Sends
from tidings.messaging.streaming.streams import Streams
from tidings.node.events import Events
from tidings.node.rooms import MemberState, Routing
from tidings.node.stores import Stores
from tidings.stores.outbound import Outbound


@dataclass(frozen=True)
class Integration:
    """The webhooks, what brings entries to them, and how far they are behind."""

    hooks: Hooks
    deliveries: Deliveries
    lag: Lag
    outbound: Outbound


def build_integration(stores: Stores, events: Events, log: Log) -> Integration:
    tables, clock, metrics = stores.tables, stores.clock, stores.metrics
    hooks = Hooks(tables.records, clock, events.news_stored)
    cursors = Cursors(tables.records, tables.log, clock)
    outbound = Outbound(allows_private=stores.settings.hooks.private_addresses or stores.settings.dev)
    deliveries = Deliveries(
        hooks=hooks,
        cursors=cursors,
        walk=Walk(hooks, tables.records, tables.inboxes, clock),
        records=tables.records,
        conversations=tables.conversations,
        log=log,
        outbound=outbound,
        encode=lambda entry: encode_frame(message_of(entry)),
        clock=clock,
        node_id=stores.settings.node.id,
        count=lambda outcome: metrics.webhooks[outcome].inc(),
    )
    events.news_stored.add(deliveries.noted)
    lag = Lag(
        hooks=hooks,
        cursors=cursors,
        records=tables.records,
        conversations=tables.conversations,
        messages=tables.log,
        clock=clock,
        show=metrics.show_webhook_lag,
    )
    return Integration(hooks, deliveries, lag, outbound)


def build_streams(stores: Stores, routing: Routing, members: MemberState, sends: Sends) -> Streams:
    return Streams(
        sends=sends,
        access=members.access,
        blocks=members.blocks,
        router=routing.router,
        messages=stores.tables.log,
        records=stores.tables.records,
        live=members.live_texts,
        clock=stores.clock,
    )
