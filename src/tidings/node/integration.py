"""Integration: builds the rooms of webhooks, streamed messages, counts, people, search and erasures.

graph.py and workers.py call these functions in their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from tidings.config.values import SettingsError
from tidings.gateway.encode import encode_frame, message_of
from tidings.messaging.access import Access, seen_by
from tidings.messaging.archive.schedule import Pass
from tidings.messaging.files.profile_pictures import ProfilePictures
from tidings.messaging.integration.before_send import BeforeSend, secret_of
from tidings.messaging.integration.cursors import Cursors
from tidings.messaging.integration.deliveries import Deliveries
from tidings.messaging.integration.hooks import Hooks
from tidings.messaging.integration.lag import Lag
from tidings.messaging.integration.walk import Walk
from tidings.messaging.lifecycle.erasing import Erasing
from tidings.messaging.log import Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.people.find import FindPeople, Scope
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.people.sight import Sight
from tidings.messaging.reactions.withdraw import Withdraw
from tidings.messaging.search.indexer import Indexer
from tidings.messaging.search.search import Search
from tidings.messaging.send.lanes import Sends
from tidings.messaging.send.review import Review
from tidings.messaging.streaming.streams import Streams
from tidings.messaging.threads.count import ThreadCount
from tidings.messaging.threads.follows import Follows
from tidings.messaging.threads.indexing import ThreadIndex
from tidings.messaging.threads.replies import Replies
from tidings.messaging.threads.unread import Standing, ThreadUnread
from tidings.messaging.unread.count import Count
from tidings.messaging.unread.large_counts import LargeCounts
from tidings.messaging.unread.line import Line
from tidings.messaging.unread.read_together import ReadTogether
from tidings.messaging.unread.rebuild import Rebuilds
from tidings.messaging.unread.states import States
from tidings.messaging.unread.tallies import Tallies
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.messaging.unread.verify import Verify
from tidings.node.events import Events
from tidings.node.rooms import Large, MemberState, Reading, Routing, Searching, Sending, Threading
from tidings.node.stores import Stores
from tidings.protocol.client_frames import check_content
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import TallyScripts
from tidings.stores.outbound import Outbound, fault_of

BEFORE_SEND_CONNECTIONS_MAX = 256  # messages that a node asks about at the same time; others wait for their turn


@dataclass(frozen=True)
class Integration:
    """The webhooks, the deliveries to them, their lag, and the before-send hook."""

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
        rows=members.stored_log,
        records=stores.tables.records,
        live=members.live_texts,
        clock=stores.clock,
        now_ms=routing.registry.now_ms,
    )


def build_erasing(
    stores: Stores,
    sweep: Callable[[], Awaitable[Pass]],
    members: MemberState,
    reading: Reading,
    sending: Sending,
    pictures: ProfilePictures,
) -> Erasing:
    """`sweep`: a pass of the archiver."""
    return Erasing(
        tables=stores.tables,
        rewrites=sending.rewrites,
        withdraw=Withdraw(members.summaries, stores.tables.records, sending.sends, stores.clock),
        directory=sending.directory,
        names=members.names,
        pictures=pictures,
        index=reading.searching.indexer.catch_up,
        sweep=sweep,
        clock=stores.clock,
    )


@dataclass(frozen=True)
class Counts:
    """The unread counts of conversations and of threads."""

    rebuilds: Rebuilds
    large: Large
    unread: ReadTogether
    threading: Threading
    verify: Verify


def build_counts(
    stores: Stores,
    events: Events,
    routing: Routing,
    access: Access,
    scripts: Scripts,
    unknown_outcomes: UnknownOutcomes,
) -> Counts:
    tables, keyspace, clock, router = stores.tables, stores.keyspace, stores.clock, routing.router
    metrics = stores.metrics
    count, in_threads = Count(tables, scripts, clock), ThreadCount(tables, scripts.threads, clock)
    rebuilds = Rebuilds(keyspace, scripts, count, clock, count_rebuild=metrics.count_rebuild)
    of_threads = Rebuilds(keyspace, scripts.threads, in_threads, clock, count_rebuild=metrics.count_rebuilt_threads)
    large = _build_large(stores, access, scripts, count, rebuilds)
    # No thread is large, so these counts only pass on what the index of threads says.
    small = LargeCounts(keyspace, scripts.threads, large.scripts, large.tallies, in_threads, of_threads)
    parts = access, tables, keyspace, scripts
    heard = unknown_outcomes, clock, events.read_up_to, events.unread_changed
    conversations = ReadTogether(*parts, count, rebuilds, of_threads, large.counts, router, *heard)
    unread = ThreadUnread(conversations, *parts, in_threads, of_threads, small, router, unknown_outcomes, clock)
    threading = Threading(
        rebuilds=of_threads,
        unread=unread,
        standing=Standing(conversations, unread, States(conversations, large.counts)),
        replies=Replies(access, tables.log, tables.records),
        index=ThreadIndex(keyspace, scripts, tables.records, routing.registry.lease_time_ms),
        follows=Follows(*parts, of_threads, unread, unknown_outcomes, router),
    )
    verify_threads = Verify(tables, keyspace, scripts.threads, in_threads, of_threads, small)
    verify = Verify(tables, keyspace, scripts, count, rebuilds, large.counts, verify_threads)
    return Counts(rebuilds, large, conversations, threading, verify)


def _build_large(stores: Stores, access: Access, scripts: Scripts, count: Count, rebuilds: Rebuilds) -> Large:
    stores.metrics.large_conversations.set_function(access.count_large)
    keyspace, tally_scripts = stores.keyspace, TallyScripts(stores.keys, cap=scripts.cap)
    tallies = Tallies(keyspace, tally_scripts, stores.tables, stores.clock, stores.metrics.count_rebuild)
    return Large(
        scripts=tally_scripts,
        tallies=tallies,
        counts=LargeCounts(
            keyspace,
            scripts,
            tally_scripts,
            tallies,
            count,
            rebuilds,
            is_one_server=not keyspace.is_cluster,
        ),
        line=Line(keyspace, scripts, tally_scripts, stores.tables, stores.clock),
    )


def build_searching(stores: Stores, members: MemberState) -> Searching:
    tables = stores.tables
    indexer = Indexer(tables.search, members.log, tables.conversations)
    search = Search(
        index=tables.search,
        indexer=indexer,
        access=members.access,
        blocks=members.blocks,
        summaries=members.summaries,
        entries=members.log,
        inboxes=tables.inboxes,
        clock=stores.clock,
        observe=stores.metrics.search_seconds.observe,
    )
    return Searching(search, indexer)


def build_people(
    stores: Stores, routing: Routing, access: Access, blocks: Blocks, sight: Sight, names: NameIndex
) -> FindPeople:
    settings = stores.settings
    return FindPeople(
        names=names,
        accounts=stores.tables.accounts,
        inboxes=stores.tables.inboxes,
        access=access,
        sight=sight,
        blocks=blocks,
        registry=routing.registry,
        scope=cast(Scope, settings.directory or ("all" if settings.dev else "shared")),
    )
