"""Integration: builds the rooms of webhooks and of streamed messages. graph.py calls this in its order."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.config.values import SettingsError
from tidings.gateway.encode import encode_frame, message_of
from tidings.messaging.access import seen_by
from tidings.messaging.integration.before_send import BeforeSend, secret_of
from tidings.messaging.integration.cursors import Cursors
from tidings.messaging.integration.deliveries import Deliveries
from tidings.messaging.integration.hooks import Hooks
from tidings.messaging.integration.lag import Lag
from tidings.messaging.integration.walk import Walk
from tidings.messaging.log import Log
from tidings.messaging.send.lanes import Sends
from tidings.messaging.send.review import Review
from tidings.messaging.streaming.streams import Streams
from tidings.node.events import Events
from tidings.node.rooms import MemberState, Routing
from tidings.node.stores import Stores
from tidings.protocol.client_frames import check_content
from tidings.stores.outbound import Outbound, fault_of

BEFORE_SEND_CONNECTIONS_MAX = 256  # messages that a node asks about at the same time; others wait for their turn


@dataclass(frozen=True)
class Integration:
    """The webhooks, what brings entries to them, and how far they are behind; and the before-send hook."""

    hooks: Hooks
    deliveries: Deliveries
    lag: Lag
    outbound: Outbound
    review: Review | None  # the stage of the before-send hook, where the settings name one


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
        encode=lambda entry: encode_frame(
            message_of(seen_by(entry.sender_id or "", entry, clock.now_ms()), is_for_team=True)
        ),
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
    return Integration(hooks, deliveries, lag, outbound, _build_review(stores))


def _build_review(stores: Stores) -> Review | None:
    """The stage of the before-send hook; None where the settings name no hook. Raises SettingsError."""
    hooks = stores.settings.hooks
    if hooks.before_send_url is None:
        return None
    allows_private = hooks.private_addresses or stores.settings.dev
    if fault := fault_of(hooks.before_send_url, allows_private=allows_private):
        raise SettingsError(f"bad value for hooks.before_send_url: {fault}; or set hooks.private_addresses")
    before_send = BeforeSend(
        url=hooks.before_send_url,
        secret=secret_of(stores.tables.accounts.secret),
        timeout_ms=hooks.timeout_ms,
        outbound=Outbound(allows_private=allows_private, connections_max=BEFORE_SEND_CONNECTIONS_MAX),
        check=check_content,
        clock=stores.clock,
        count=lambda verdict: stores.metrics.before_send[verdict].inc(),
    )
    return Review(
        before_send,
        stores.keyspace,
        stores.keys,
        stores.tables.log,
        stores.clock,
        allows_on_failure=hooks.on_failure == "allow",
    )


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
