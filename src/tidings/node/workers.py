"""Workers: builds the rooms beside the way of a message: archive, push, limits with audit, live status,
and messages with a time.

graph.py calls these functions in its order. node.py starts and stops the loops of the parts.
A command-line verb uses the parts and starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tidings.bounds import CLASSES, LIVE_STATUS_TASKS_MAX
from tidings.config.values import SettingsError
from tidings.messaging.access import Access
from tidings.messaging.archive.mover import Archiver, Writer
from tidings.messaging.archive.read_through import ReadThrough, Segments
from tidings.messaging.archive.recheck import Rechecker
from tidings.messaging.archive.schedule import Archiving
from tidings.messaging.conversations.announcements import Announcements
from tidings.messaging.files.attach import Attachments
from tidings.messaging.files.downloads import Downloads
from tidings.messaging.files.sweep import FileSweep
from tidings.messaging.files.thumbnails import Look, Thumbnails
from tidings.messaging.files.tickets import Tickets
from tidings.messaging.files.uploads import Rules, Uploads
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.limits.overrides import Overrides
from tidings.messaging.limits.policy import Limits
from tidings.messaging.log import Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.people.consent import Consent
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.people.sight import Sight
from tidings.messaging.presence.live_status import LiveStatus
from tidings.messaging.presence.presence import Presences
from tidings.messaging.presence.typing_status import TypingStatus
from tidings.messaging.presence.watchers import Watchers
from tidings.messaging.push.content import Notices
from tidings.messaging.push.device_acks import DeviceAcks
from tidings.messaging.push.due import DueConversations
from tidings.messaging.push.worker import PushWorker
from tidings.messaging.reading.flags import Flags
from tidings.messaging.reading.history import History
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.reading.inbox_rows import InboxRows
from tidings.messaging.reading.large_pages import LargePages
from tidings.messaging.reading.receipt_marks import ReceiptMarks
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.reading.resume import Resume
from tidings.messaging.streaming.texts import LiveTexts, StreamedLog
from tidings.messaging.summaries import Summaries
from tidings.messaging.threads.summaries import ThreadSummaries
from tidings.messaging.unread.scrubber import Scrubber
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.messaging.unread.unread import Unread
from tidings.node.events import Events
from tidings.node.integration import build_counts, build_people, build_searching
from tidings.node.rooms import MemberState, Reading, Routing
from tidings.node.stores import Stores
from tidings.operators.active_users import ActiveUsers
from tidings.operators.audit.events import Audit
from tidings.operators.audit.reader import AuditReader
from tidings.operators.audit.recount import AuditRecount
from tidings.operators.audit.sums import AuditSums
from tidings.operators.stream_lag import StreamLags
from tidings.routing.bus import Bus
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.stores.keyspace.scripts.archive import ArchiveScripts
from tidings.stores.keyspace.scripts.audit import AuditScripts
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.push import PushScripts
from tidings.stores.keyspace.scripts.receipts import ReceiptScripts
from tidings.stores.push.open import open_providers
from tidings.stores.push.ports import Push
from tidings.tasks import TaskSet


@dataclass(frozen=True)
class ColdTier:
    """`messages`: the log with every text in it, wherever it is. `archiving` fills the blobs."""

    segments: Segments
    messages: ReadThrough
    archiving: Archiving
    file_sweep: FileSweep


def build_cold_tier(stores: Stores) -> ColdTier:
    tables, blobs, clock, metrics = stores.tables, stores.blobs, stores.clock, stores.metrics
    archive = tables.archive

    def count(what: str, n: int) -> None:
        metrics.archive[what].inc(n)

    segments = Segments(blobs, archive.id, count)
    writer = Writer(archive, blobs, segments, clock, count)
    bare = Log(tables.log, tables.conversations, clock, metrics.count_repair)  # the rows as they are
    file_sweep = FileSweep(
        records=tables.records,
        messages=tables.log,
        conversations=tables.conversations,
        blobs=blobs,
        files=stores.files,
        archive_id=archive.id,
        clock=clock,
    )
    archiving = Archiving(
        keyspace=stores.keyspace,
        scripts=ArchiveScripts(stores.keys),
        conversations=tables.conversations,
        archive=archive,
        blobs=blobs,
        archiver=Archiver(archive, bare, writer, count),
        rechecker=Rechecker(
            log=tables.log,
            conversations=tables.conversations,
            archive=archive,
            blobs=blobs,
            segments=segments,
            writer=writer,
            clock=clock,
            count=count,
            files=file_sweep,
            search=tables.search,
        ),
        clock=clock,
        holder=stores.settings.node.id,
        after_days=stores.settings.archive.after_days,
        every_s=stores.settings.archive.every_s,
        count=count,
        beside=file_sweep,
        wipe=tables.wipe,
    )
    return ColdTier(segments, ReadThrough(tables.log, segments, archive, clock, count), archiving, file_sweep)


@dataclass(frozen=True)
class Files:
    """Uploads, links to files, and the records of files that change with a message."""

    uploads: Uploads
    downloads: Downloads
    attachments: Attachments
    thumbnails: Thumbnails


def build_files(stores: Stores, access: Access) -> Files:
    tables, clock, settings = stores.tables, stores.clock, stores.settings.files
    tickets, look = Tickets(tables.accounts.secret, clock), Look(stores.files)

    def count_bytes(direction: str, n: int) -> None:
        stores.metrics.files_bytes[direction].inc(n)

    uploads = Uploads(
        access=access,
        records=tables.records,
        files=stores.files,
        tickets=tickets,
        archive_id=tables.archive.id,
        rules=Rules(settings.max_bytes, settings.per_day_bytes, settings.types),
        clock=clock,
        measure=look.measure if look.is_possible else None,
        count_bytes=count_bytes,
    )
    downloads = Downloads(
        access=access,
        messages=tables.log,
        records=tables.records,
        files=stores.files,
        tickets=tickets,
        archive_id=tables.archive.id,
        clock=clock,
        count_bytes=count_bytes,
    )
    thumbnails = Thumbnails(
        downloads=downloads,
        look=look,
        blobs=stores.blobs,
        files=stores.files,
        tickets=tickets,
        archive_id=tables.archive.id,
        clock=clock,
    )
    return Files(uploads, downloads, Attachments(tables.records, clock), thumbnails)


@dataclass(frozen=True)
class Pushing:
    """Notifications for users who are not connected: what is due, the queued jobs, and the providers that send them."""

    scripts: PushScripts
    providers: Mapping[str, Push]
    notify: PushWorker
    due: DueConversations


def build_pushing(stores: Stores, access: Access, blocks: Blocks, messages: ReadThrough, unread: Unread) -> Pushing:
    """Raises SettingsError. Due conversations stay in the keyspace: they are recorded with the index of a message."""
    settings, scripts = stores.settings.push, PushScripts(stores.keys)
    try:
        providers = open_providers(settings, stores.clock)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    queues = stores.queues
    notify = PushWorker(
        keyspace=queues.keyspace,
        scripts=PushScripts(queues.keys),
        acks=DeviceAcks(stores.keyspace, stores.keys),
        devices=stores.tables.devices,
        notices=Notices(access, messages, stores.tables, unread, stores.clock, has_preview=settings.preview),
        providers=providers,
        clock=stores.clock,
        node_id=stores.settings.node.id,
        count=lambda provider, outcome: stores.metrics.push[provider, outcome].inc(),
    )
    due = DueConversations(
        keyspace=stores.keyspace,
        scripts=scripts,
        access=access,
        blocks=blocks,
        tables=stores.tables,
        pending=stores.tables.pending,
        worker=notify,
        clock=stores.clock,
        grace_s=settings.grace_s,
    )
    return Pushing(scripts, providers, notify, due)


@dataclass(frozen=True)
class Limiting:
    """The limiter with its overrides, the audit stream with its sums, and which users were there."""

    limiter: Limiter
    overrides: Overrides
    audit: Audit
    fold: AuditSums
    reader: AuditReader
    replay: AuditRecount
    activity: ActiveUsers
    lags: StreamLags


def build_limiting(stores: Stores, scripts: Scripts, connected: Callable[[], Iterable[str]]) -> Limiting:
    """`connected` returns the users who are connected to this node."""
    keyspace, keys, clock, node_id = stores.keyspace, stores.keys, stores.clock, stores.settings.node.id
    defaults = {name: getattr(stores.settings.limits, name) for name in CLASSES}
    limiter = Limiter(keyspace, scripts, clock, Limits(defaults))
    queues, refused = stores.queues, stores.metrics.rate_limited
    audits = AuditScripts(queues.keys)
    return Limiting(
        limiter=limiter,
        overrides=Overrides(stores.tables.overrides, limiter.limits, clock, limiter.forget),
        audit=Audit(queues.keyspace, audits, clock, node_id, lambda class_name, n: refused[class_name].inc(n)),
        fold=AuditSums(queues.keyspace, audits, node_id),
        reader=AuditReader(queues.keyspace, queues.keys, clock),
        replay=AuditRecount(queues.keyspace, audits),
        activity=ActiveUsers(keyspace, keys, clock, connected),
        lags=StreamLags(queues.keyspace, queues.keys, stores.metrics.show_lag),
    )


def build_live_status(
    stores: Stores, hub: Hub, registry: Registry, bus: Bus, access: Access, sight: Sight
) -> LiveStatus:
    keyspace, keys, clock = stores.keyspace, stores.keys, stores.clock
    tasks = TaskSet(LIVE_STATUS_TASKS_MAX)
    watchers = Watchers(
        access=access,
        sight=sight,
        hub=hub,
        registry=registry,
        bus=bus,
        keyspace=keyspace,
        keys=keys,
        node_id=stores.settings.node.id,
    )
    presences = Presences(
        access=access,
        sight=sight,
        watchers=watchers,
        hub=hub,
        registry=registry,
        keyspace=keyspace,
        keys=keys,
        tasks=tasks,
    )
    return LiveStatus(watchers, TypingStatus(access, watchers, tasks, clock), presences, tasks)


def build_members(stores: Stores, events: Events, routing: Routing, cold: ColdTier) -> MemberState:
    keyspace, tables, clock, metrics = stores.keyspace, stores.tables, stores.clock, stores.metrics
    settings, live_texts = stores.settings.unread, LiveTexts()
    scripts = Scripts(
        stores.keys,
        unread_cap=settings.cap,
        unread_ttl_s=settings.ttl_days * 86_400,
        unread_policy=settings.policy,
    )
    of_lists = tables.conversations, tables.log, tables.records
    access = Access(*of_lists, keyspace, stores.keys, clock, events.list_replaced)
    blocks = Blocks(tables.people, keyspace, scripts, routing.router, clock, events.unread_changed)
    unknown_outcomes = UnknownOutcomes(keyspace, scripts, clock)
    counts = build_counts(stores, events, routing, access, scripts, unknown_outcomes)
    sight, names = Sight(blocks, tables.conversations), NameIndex(tables.records, tables.accounts)
    summaries = ThreadSummaries(tables.inboxes, counts.threading.unread)
    return MemberState(
        scripts=scripts,
        access=access,
        blocks=blocks,
        names=names,
        people=build_people(stores, routing, access, blocks, sight, names),
        sight=sight,
        consent=Consent(tables.people, tables.inboxes, tables.conversations, blocks),
        log=Log(
            StreamedLog(cold.messages, tables.records, live_texts), tables.conversations, clock, metrics.count_repair
        ),
        stored_log=cold.messages,
        live_texts=live_texts,
        summaries=Summaries(access, tables.log, tables.records, keyspace, stores.keys, summaries.beside),
        unknown_outcomes=unknown_outcomes,
        scrubber=Scrubber(
            counts.verify, counts.threading.standing, routing.router, routing.hub.users, metrics.count_repair
        ),
        **vars(counts),
    )


def build_reading(stores: Stores, events: Events, routing: Routing, members: MemberState) -> Reading:
    keyspace, tables = stores.keyspace, stores.tables
    access, log, unread = members.access, members.log, members.unread
    count_repair, clock = stores.metrics.count_repair, stores.clock
    pages = LargePages(members.large.counts, members.scripts.cap)
    inbox = Inbox(access, tables, keyspace, members.scripts, members.rebuilds, unread, pages, count_repair, clock)
    receipts = Receipts(
        access=access,
        messages=tables.log,
        statuses=tables.statuses,
        conversations=tables.conversations,
        unread=unread,
        receipt_marks=ReceiptMarks(keyspace, ReceiptScripts(stores.keys), tables.statuses),
        router=routing.router,
        receipts_stored=events.receipts_stored,
        clock=clock,
    )
    scripts, rebuilds, outcomes = members.scripts, members.rebuilds, members.unknown_outcomes
    router, changed = routing.router, events.unread_changed
    flags = Flags(access, tables, keyspace, scripts, rebuilds, inbox, router, outcomes, changed, stores.clock)
    return Reading(
        inbox=inbox,
        announcements=Announcements(inbox, routing.registry, router),
        flags=flags,
        rows=InboxRows(tables, stores.clock, has_counts=stores.settings.unread.policy == "until_read"),
        receipts=receipts,
        history=History(access, members.blocks, tables.conversations, log, unread, receipts, members.summaries),
        resume=Resume(access, members.blocks, tables.conversations, log, inbox, unread, receipts, members.summaries),
        searching=build_searching(stores, members),
    )
