"""Rooms: the parts of a node as records, one for each room. graph.py builds them in their order."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.messaging.access import Access
from tidings.messaging.conversations.announcements import Announcements
from tidings.messaging.conversations.directory import Directory
from tidings.messaging.deliver.count_resync import CountResync
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.files.profile_pictures import ProfilePictures
from tidings.messaging.lifecycle.erasing import Erasing
from tidings.messaging.lifecycle.retention import Retention
from tidings.messaging.lifecycle.scheduled import Schedule
from tidings.messaging.lifecycle.timed import TimedWork
from tidings.messaging.log import Log
from tidings.messaging.moderation.bans import Bans
from tidings.messaging.moderation.joining import Joining
from tidings.messaging.moderation.reports import Reports
from tidings.messaging.moderation.rules import RuleChanges
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.people.consent import Consent
from tidings.messaging.people.find import FindPeople
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.people.sight import Sight
from tidings.messaging.reactions.pins import Pins
from tidings.messaging.reactions.reactions import ReactionSends
from tidings.messaging.reactions.reactors import Reactors
from tidings.messaging.reading.drafts import Drafts
from tidings.messaging.reading.flags import Flags
from tidings.messaging.reading.history import History
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.reading.inbox_rows import InboxRows
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.reading.resume import Resume
from tidings.messaging.reading.saved import Saved
from tidings.messaging.search.indexer import Indexer
from tidings.messaging.search.search import Search
from tidings.messaging.send.counters import Counters
from tidings.messaging.send.edit import Rewrites
from tidings.messaging.send.index import Index
from tidings.messaging.send.lanes import Sends
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.send.pipeline import Pipeline
from tidings.messaging.send.takeover import Takeover
from tidings.messaging.streaming.streams import Streams
from tidings.messaging.streaming.texts import LiveTexts
from tidings.messaging.summaries import Summaries
from tidings.messaging.threads.follows import Follows
from tidings.messaging.threads.indexing import ThreadIndex
from tidings.messaging.threads.replies import Replies
from tidings.messaging.threads.threads import Threads
from tidings.messaging.threads.unread import Standing, ThreadUnread
from tidings.messaging.transfer.exporting import Exporting
from tidings.messaging.transfer.importing import Importing
from tidings.messaging.unread.large_counts import LargeCounts
from tidings.messaging.unread.line import Line
from tidings.messaging.unread.read_together import ReadTogether
from tidings.messaging.unread.rebuild import Rebuilds
from tidings.messaging.unread.scrubber import Scrubber
from tidings.messaging.unread.tallies import Tallies
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.messaging.unread.verify import Verify
from tidings.routing.bus import Bus
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import TallyScripts
from tidings.stores.tables.ports import Messages


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Where the recipients are."""

    hub: Hub
    bus: Bus
    registry: Registry
    router: Router


@dataclass(frozen=True, kw_only=True)
class Threading:
    """The counts of threads, and what brings replies into them."""

    rebuilds: Rebuilds
    unread: ThreadUnread
    standing: Standing
    replies: Replies
    index: ThreadIndex
    follows: Follows


@dataclass(frozen=True, kw_only=True)
class Large:
    """Large conversations: the tally, the counts that are made of it, and the line."""

    scripts: TallyScripts
    tallies: Tallies
    counts: LargeCounts
    line: Line


@dataclass(frozen=True, kw_only=True)
class MemberState:
    """Access to a conversation, its log, and the unread state of each member."""

    scripts: Scripts
    access: Access
    blocks: Blocks
    sight: Sight
    consent: Consent
    names: NameIndex
    people: FindPeople
    log: Log
    summaries: Summaries
    stored_log: Messages  # the log as it is stored, with the texts that are archived
    live_texts: LiveTexts
    rebuilds: Rebuilds
    large: Large
    unknown_outcomes: UnknownOutcomes
    unread: ReadTogether
    threading: Threading
    verify: Verify
    scrubber: Scrubber


@dataclass(frozen=True)
class Searching:
    """The search for messages, and what keeps its index up to the log."""

    search: Search
    indexer: Indexer


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Everything that a member can read, and the news of new conversations."""

    inbox: Inbox
    announcements: Announcements
    flags: Flags
    rows: InboxRows
    receipts: Receipts
    history: History
    resume: Resume
    searching: Searching


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """To every device, in order, on every node."""

    count_resync: CountResync
    deliver: Deliver


@dataclass(frozen=True, kw_only=True)
class Work:
    """The journal of this node's open work, the index stage, and the takeover of the work of dead nodes."""

    open_work: OpenWork
    counters: Counters
    index: Index
    takeover: Takeover


@dataclass(frozen=True, kw_only=True)
class Sending:
    """The way of a message, and the use cases that begin it."""

    pipeline: Pipeline
    sends: Sends
    streams: Streams
    rewrites: Rewrites
    directory: Directory


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Things that members put beside messages, or keep for themselves."""

    reactions: ReactionSends
    reactors: Reactors
    pins: Pins
    saved: Saved
    drafts: Drafts
    threads: Threads


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Messages and time, the rules of a conversation, and the ways into it and out of it."""

    rules: RuleChanges
    bans: Bans
    joining: Joining
    reports: Reports
    schedule: Schedule
    erasing: Erasing
    exporting: Exporting
    importing: Importing
    profile_pictures: ProfilePictures
    retention: Retention
    timed: TimedWork
    jobs: TimedWork  # beside the rest: a step of an erasure may take minutes
