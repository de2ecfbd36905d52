"""Graph: builds the parts of a node on its opened stores, in build order.

Each function builds one room from the rooms before it and returns it as a frozen record, so no cycle can arise. A part
that must reach another that is built later causes an event (events.py). `open_core` is a node without its sockets, for
command-line verbs and tests; node.py puts the gateway on top.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.messaging.access import RULES
from tidings.messaging.conversations.directory import Directory
from tidings.messaging.conversations.invitations import Invitations
from tidings.messaging.conversations.rows import Rows
from tidings.messaging.deliver.count_resync import CountResync
from tidings.messaging.deliver.membership_events import MembershipEvents
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.files.profile_pictures import ProfilePictures
from tidings.messaging.files.thumbnails import Look
from tidings.messaging.lifecycle.erasing import JOBS
from tidings.messaging.lifecycle.expiry import EXPIRING, Expiry
from tidings.messaging.lifecycle.retention import Retention
from tidings.messaging.lifecycle.scheduled import SCHEDULED, Schedule
from tidings.messaging.lifecycle.timed import TimedWork
from tidings.messaging.limits.held import Holds
from tidings.messaging.moderation.bans import Bans
from tidings.messaging.moderation.joining import Joining
from tidings.messaging.moderation.reports import Reports
from tidings.messaging.moderation.rules import RuleChanges
from tidings.messaging.presence.live_status import LiveStatus
from tidings.messaging.reactions.pins import Pins
from tidings.messaging.reactions.reactions import ReactionSends
from tidings.messaging.reactions.reactors import Reactors
from tidings.messaging.reading.drafts import Drafts
from tidings.messaging.reading.flags import MUTES
from tidings.messaging.reading.saved import Saved
from tidings.messaging.send.acknowledge import Acknowledge
from tidings.messaging.send.admit import Admit
from tidings.messaging.send.batch import Measures
from tidings.messaging.send.counters import Counters
from tidings.messaging.send.edit import Rewrites
from tidings.messaging.send.index import Index
from tidings.messaging.send.lanes import Sends
from tidings.messaging.send.members import Members
from tidings.messaging.send.number import Number
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.send.pipeline import Pipeline
from tidings.messaging.send.store import Store
from tidings.messaging.send.takeover import Takeover
from tidings.messaging.threads.threads import Threads
from tidings.messaging.transfer.exporting import Exporting
from tidings.messaging.transfer.import_files import ImportFiles
from tidings.messaging.transfer.importing import Importing
from tidings.node.events import Events
from tidings.node.heartbeat import Heartbeat
from tidings.node.integration import Integration, build_erasing, build_integration, build_streams
from tidings.node.rooms import Beside, Delivery, Lifecycle, MemberState, Reading, Routing, Sending, Work
from tidings.node.stores import Stores, open_stores
from tidings.node.tracing import Tracing, open_tracing
from tidings.node.workers import (
    ColdTier,
    Files,
    Limiting,
    Pushing,
    build_cold_tier,
    build_files,
    build_limiting,
    build_live_status,
    build_members,
    build_pushing,
    build_reading,
)
from tidings.routing.bus import Bus
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router

__all__ = ["Core", "Stores", "build", "open_core"]


@dataclass(frozen=True, kw_only=True)
class Core(Stores, Routing, MemberState, Reading, Delivery, Work, Sending, Lifecycle, Beside):
    """A node without its sockets: its stores and every part, each under its own name."""

    events: Events
    cold: ColdTier
    pushing: Pushing
    limiting: Limiting
    integration: Integration
    filing: Files
    live_status: LiveStatus
    heartbeat: Heartbeat

    @property
    def node_id(self) -> str:
        return self.settings.node.id


@asynccontextmanager
async def open_core(settings: Settings, clock: Clock | None = None, *, is_guest: bool = False) -> AsyncIterator[Core]:
    """Open the stores and build the parts on them. A guest may use the Valkey of a running node, and is not traced."""
    async with open_stores(settings, clock or Clock(), is_guest=is_guest) as stores:
        of_node = stores.settings.otel, stores.metrics, stores.clock, stores.settings.node.id
        tracing = Tracing(stores.metrics) if is_guest else open_tracing(*of_node)
        try:
            yield build(stores, tracing.measures)
        finally:
            await tracing.close()


def build(stores: Stores, measures: Measures | None = None) -> Core:
    """Build every room, in order, and connect their events. `measures` observes the send path; else the metrics do."""
    events = Events()
    stores.keyspace.on_epoch(events.epoch_changed)
    if stores.queues_apart is not None:
        stores.queues_apart.on_epoch(events.queues_epoch_changed)
    routing = _build_routing(stores, events)
    cold = build_cold_tier(stores)
    members = build_members(stores, events, routing, cold)
    filing = build_files(stores, members.access)
    reading = build_reading(stores, events, routing, members)
    pushing = build_pushing(stores, members.access, members.blocks, cold.messages, members.unread)
    limiting = build_limiting(stores, members.scripts, routing.hub.users)
    delivery = _build_delivery(stores, routing, members, reading)
    integration = build_integration(stores, events, members.log)
    work = _build_work(stores, routing, members, reading, delivery, pushing, integration)
    parts = routing, members, reading, delivery, work, limiting, integration, filing
    sends = _build_sends(stores, events, *parts, measures or stores.metrics)
    sending = _build_sending(stores, routing, members, reading, *sends)
    lifecycle = _build_lifecycle(stores, routing, cold, members, reading, sending)
    live_status = build_live_status(stores, routing.hub, routing.registry, routing.bus, members.access, members.sight)
    heartbeat = Heartbeat(
        **vars(routing),
        deliver=delivery.deliver,
        unknown_outcomes=members.unknown_outcomes,
        open_work=work.open_work,
        takeover=work.takeover,
        sends=sending.sends,
        live_status=live_status,
        events=events,
        clock=stores.clock,
    )
    _connect(events, members, reading, pushing, delivery, work)
    beside = _build_beside(stores, routing, members, reading, sending.sends)
    rooms = (stores, routing, members, reading, delivery, work, sending, lifecycle, beside)
    return Core(
        **{name: part for room in rooms for name, part in vars(room).items()},
        events=events,
        cold=cold,
        pushing=pushing,
        limiting=limiting,
        integration=integration,
        filing=filing,
        live_status=live_status,
        heartbeat=heartbeat,
    )


def _connect(
    events: Events, members: MemberState, reading: Reading, pushing: Pushing, delivery: Delivery, work: Work
) -> None:
    """Add the listeners of every event inside the core. node.py adds those of the gateway."""
    events.read_up_to.add(reading.receipts.read)
    events.receipts_stored.add(pushing.due.received)
    events.unread_changed.add(pushing.notify.badge)
    events.entries_stored.add(reading.searching.indexer.stored)
    events.counts_pushed.add(delivery.count_resync.record)
    events.list_replaced.add(delivery.deliver.list_replaced)
    events.epoch_changed.add(work.open_work.epoch_changed)
    events.epoch_changed.add(pushing.due.epoch_changed)
    events.queues_epoch_changed.add(pushing.due.epoch_changed)
    events.epoch_changed.add(members.blocks.epoch_changed)
    events.epoch_changed.add(members.unknown_outcomes.epoch_changed)


def _build_routing(stores: Stores, events: Events) -> Routing:
    keyspace, keys, node_id = stores.keyspace, stores.keys, stores.settings.node.id
    hub, bus = Hub(), Bus(keyspace, keys, node_id)
    registry = Registry(keyspace, keys, hub, bus, stores.clock, node_id)
    router = Router(hub, registry, bus, events.counts_pushed, events.user_revoked)
    return Routing(hub=hub, bus=bus, registry=registry, router=router)


def _build_delivery(stores: Stores, routing: Routing, members: MemberState, reading: Reading) -> Delivery:
    count_resync = CountResync(routing.hub, members.threading.standing, stores.clock)
    deliver = Deliver(
        **vars(routing),
        access=members.access,
        blocks=members.blocks,
        log=members.log,
        inbox=reading.inbox,
        unread=members.threading.standing,
        membership_events=MembershipEvents(reading.inbox, routing.hub, routing.router),
        count_resync=count_resync,
        clock=stores.clock,
        node_id=stores.settings.node.id,
        count_deliveries=stores.metrics.deliveries.inc,
        quiet=stores.tables.quiet,
    )
    return Delivery(count_resync=count_resync, deliver=deliver)


def _build_work(
    stores: Stores,
    routing: Routing,
    members: MemberState,
    reading: Reading,
    delivery: Delivery,
    pushing: Pushing,
    integration: Integration,
) -> Work:
    keyspace, tables, clock, node_id = stores.keyspace, stores.tables, stores.clock, stores.settings.node.id
    open_work = OpenWork(keyspace, stores.keys, delivery.deliver, routing.registry.now_ms, clock, node_id)
    counters = Counters(keyspace, members.scripts, tables.log, clock, node_id)
    index = Index(
        keyspace=keyspace,
        scripts=members.scripts,
        tables=tables,
        rows=reading.rows,
        open_work=open_work,
        counters=counters,
        blocks=members.blocks,
        line=members.large.line,
        lease_time_ms=routing.registry.lease_time_ms,
        due_calls=pushing.due.calls,
        count_mentions=stores.metrics.mentions.inc,
        thread_calls=members.threading.index.calls,
        present=routing.hub.present,
    )
    takeover = Takeover(
        keyspace=keyspace,
        keys=stores.keys,
        access=members.access,
        log=members.log,
        messages=tables.log,
        index=index,
        deliver=delivery.deliver,
        open_work=open_work,
        lease_now_ms=routing.registry.now_ms,
        clock=clock,
        node_id=node_id,
        count_repair=stores.metrics.count_repair,
        left_behind=integration.hooks.left_behind,
    )
    return Work(open_work=open_work, counters=counters, index=index, takeover=takeover)


def _build_sends(
    stores: Stores,
    events: Events,
    routing: Routing,
    members: MemberState,
    reading: Reading,
    delivery: Delivery,
    work: Work,
    limiting: Limiting,
    integration: Integration,
    filing: Files,
    measures: Measures,
) -> tuple[Pipeline, Sends]:
    keyspace, tables, clock, node_id = stores.keyspace, stores.tables, stores.clock, stores.settings.node.id
    access, scripts, open_work, holds = members.access, members.scripts, work.open_work, Holds()
    acknowledge = Acknowledge(holds, clock, measures)
    admit = Admit(limiting.limiter, holds, keyspace, scripts, clock, is_early=integration.review is not None)
    load = Members(access, members.blocks, members.log, open_work, clock, stores.settings.members_max)
    number = Number(keyspace, scripts, work.counters, load, admit, open_work, clock, node_id)
    pipeline = Pipeline(
        members=load,
        admit=admit,
        number=number,
        store=Store(
            tables.log, members.log, work.counters, number, integration.hooks, clock, stores.settings.members_large
        ),
        index=work.index,
        acknowledge=acknowledge,
        deliver=delivery.deliver,
        rows=reading.rows,
        open_work=open_work,
        clock=clock,
        online=routing.registry.is_online,
        entries_stored=events.entries_stored,
        review=integration.review,
    )
    return pipeline, Sends(
        pipeline=pipeline,
        access=access,
        holds=holds,
        acknowledge=acknowledge,
        rows=reading.rows,
        open_work=open_work,
        clock=clock,
        measures=measures,
        secret=tables.accounts.secret,
        accompany=filing.attachments.accompany,
        accompany_reply=members.threading.replies.accompany,
    )


def _build_sending(
    stores: Stores, routing: Routing, members: MemberState, reading: Reading, pipeline: Pipeline, sends: Sends
) -> Sending:
    tables, clock, access = stores.tables, stores.clock, members.access
    rows = Rows(reading.announcements, stores.keyspace, members.scripts, members.unknown_outcomes, clock)
    invitations = Invitations(
        access=access,
        tables=tables,
        sends=sends,
        rows=rows,
        router=routing.router,
        keyspace=stores.keyspace,
        scripts=members.scripts,
        clock=clock,
    )
    directory = Directory(
        rows=rows,
        consent=members.consent,
        invitations=invitations,
        sight=members.sight,
        access=access,
        conversations=tables.conversations,
        records=tables.records,
        accounts=tables.accounts,
        names=members.names,
        sends=sends,
        announcements=reading.announcements,
        inboxes=tables.inboxes,
        router=routing.router,
        keyspace=stores.keyspace,
        scripts=members.scripts,
        unknown_outcomes=members.unknown_outcomes,
        clock=clock,
        members_max=stores.settings.members_max,
        members_large=stores.settings.members_large,
    )
    rewrites = Rewrites(access, tables.log, members.log, sends, clock)
    streams = build_streams(stores, routing, members, sends)
    return Sending(pipeline=pipeline, sends=sends, streams=streams, rewrites=rewrites, directory=directory)


def _build_beside(stores: Stores, routing: Routing, members: MemberState, reading: Reading, sends: Sends) -> Beside:
    summaries, count, records = members.summaries, stores.metrics.reactions.inc, stores.tables.records
    access, threading = members.access, members.threading
    of_threads = threading.rebuilds, threading.unread, threading.follows
    parts = access, members.log, members.blocks, summaries, records, stores.keyspace, members.scripts, *of_threads
    return Beside(
        reactions=ReactionSends(members.access, members.blocks, summaries, sends, stores.clock, count),
        reactors=Reactors(summaries),
        pins=Pins(members.access, members.blocks, summaries, records, members.log, sends, stores.clock),
        saved=Saved(reading.history, summaries, members.blocks, records, stores.clock),
        drafts=Drafts(members.access, records, routing.router),
        threads=Threads(*parts, reading.receipts, stores.clock),
    )


def _build_lifecycle(
    stores: Stores, routing: Routing, cold: ColdTier, members: MemberState, reading: Reading, sending: Sending
) -> Lifecycle:
    tables, node_id = stores.tables, stores.settings.node.id
    expiry = Expiry(tables.log, tables.records, sending.rewrites, stores.metrics.expired.inc)
    schedule = Schedule(members.access, tables.records, sending.sends, routing.router, stores.clock)
    count, scripts = stores.metrics.expired.inc, members.scripts
    of_keyspace, unindex = (stores.keyspace, scripts, stores.clock), reading.searching.indexer.remove
    retention = Retention(members.access, tables, sending.rewrites, *of_keyspace, count, unindex)
    profile_pictures = ProfilePictures(
        tables.accounts, sending.directory.introduce, Look(stores.files), stores.blobs, tables.archive.id
    )
    erasing = build_erasing(stores, cold.archiving.run, members, reading, sending, profile_pictures)
    works = {EXPIRING: expiry.end, SCHEDULED: schedule.send, RULES: retention.keep, MUTES: reading.flags.end_mute}
    for_timed = stores.keyspace, stores.keys, tables.records, stores.clock, node_id
    records, clock, access, sends = tables.records, stores.clock, members.access, sending.sends
    bans = Bans(access, records, sends, clock)
    return Lifecycle(
        rules=RuleChanges(access, records, sends, reading.announcements, clock),
        bans=bans,
        joining=Joining(access, tables.conversations, records, sends, clock),
        reports=Reports(access, members.log, records, sending.rewrites, bans, clock),
        schedule=schedule,
        erasing=erasing,
        profile_pictures=profile_pictures,
        exporting=Exporting(tables, cold.messages, stores.files, tables.archive.id, clock),
        importing=Importing(
            tables=tables,
            files=ImportFiles(records, stores.files, tables.archive.id, clock),
            summaries=members.summaries,
            introduce=sending.directory.introduce,
            keyspace=stores.keyspace,
            scripts=scripts,
            clock=clock,
            members_large=stores.settings.members_large,
        ),
        retention=retention,
        timed=TimedWork(*for_timed, works),
        jobs=TimedWork(*for_timed, {JOBS: erasing.step}),
    )
