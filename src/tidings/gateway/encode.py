"""Values of the model as bytes of the wire: answers, errors and events.

`EventEncoder` is on the hot path: the MESSAGE of an entry is encoded once and spliced into the frame of every member,
because only the counts differ. The structs are in protocol/; the tests decode each encoded frame with its struct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidings import pushes
from tidings.errors import Problem, Reason, Unauthorized
from tidings.messaging.conversations.directory import View
from tidings.messaging.limits.limiter import Budget
from tidings.messaging.send.draft import is_plain
from tidings.model import (
    KINDS,
    Beside,
    Content,
    Entry,
    File,
    HistoryPage,
    InboxItem,
    InboxPage,
    Member,
    Row,
    Rules,
    Sent,
)
from tidings.protocol import server_frames as frames
from tidings.protocol.bodies import (
    BesideBody,
    BudgetBody,
    ConversationBody,
    FileBody,
    HistoryBody,
    InboxBody,
    InboxRowBody,
    LastMessageBody,
    MemberBody,
    MemberEntryBody,
    MessageBody,
    OwnDraftBody,
    RateLimitsBody,
    RulesBody,
    SentBody,
)
from tidings.protocol.own_bodies import ReactedBody
from tidings.stores.tables.stored_content import read_last

ENTRIES_CACHED_MAX = 64  # a batch pushes an entry to all its members within moments; older entries come no more

_NOTHING = Content()  # of an entry without a content
_NOTHING_BESIDE = Beside({})
_OF_PLAIN = (False, None, None, None)  # deleted, edited_at, target_seq and member of a new message
_encode = msgspec.json.Encoder().encode


# --- answers --------------------------------------------------------------------------------------


def encode_frame(frame: msgspec.Struct) -> bytes:
    return _encode(frame)


def encode_ok(frame_id: int, body: msgspec.Struct | bytes | None = None) -> bytes:
    """`ok` with the fields of `body` beside the id. A body of several answers comes encoded."""
    if body is None:
        return b'{"id":%d,"type":"ok"}' % frame_id
    fields = body if isinstance(body, bytes) else _encode(body)
    return b'{"id":%d,"type":"ok",%b' % (frame_id, fields[1:])


def encode_error(frame_id: int | None, problem: Problem) -> bytes:
    return _encode(
        frames.Error(
            id=UNSET if frame_id is None else frame_id,
            code=problem.code,
            temporary=problem.is_temporary,
            retry_after_ms=problem.retry_after_ms,
            message=str(problem),
            reason=reason_of(problem),
        )
    )


def reason_of(problem: Problem) -> Reason | UnsetType:
    """Why a token or key is refused, where the caller may know."""
    reason = problem.reason if isinstance(problem, Unauthorized) else None
    return UNSET if reason is None else reason


def message_of(
    entry: Entry, *, is_hidden: bool = False, beside: Beside | None = None, is_for_team: bool = False
) -> MessageBody:
    """The entry for a reader. `is_for_team`: for a webhook, which sees what only the sender sees, and is told so."""
    ts = entry.timestamp
    if beside is None and not is_hidden and _is_plain(entry):
        return MessageBody(
            entry.seq_no, entry.kind, entry.message_id, entry.sender_id, entry.text, ts, entry.sent_ms, *_OF_PLAIN
        )
    if ts is None and entry.bumps:
        ts = entry.sent_ms
    change = entry.member
    content = entry.content or _NOTHING
    beside = beside or _NOTHING_BESIDE
    return MessageBody(
        seq=entry.seq_no,
        kind=entry.kind,
        message_id=entry.message_id,
        sender_id=entry.sender_id,
        text=content.text,
        ts=ts,
        sent_at=entry.sent_ms,
        deleted=entry.is_deleted,
        edited_at=entry.edited_ms,
        target_seq=entry.target_seq,
        member=MemberEntryBody(change.action, change.user_ids, change.role) if change is not None else None,
        data=content.data if content.data is not None else UNSET,
        silent=True if content.silent else UNSET,
        reply_to=content.reply_to if content.reply_to is not None else UNSET,
        files=[file_of(file) for file in content.files] if content.files else UNSET,
        expires_at=expires_ms if content.ttl_s is not None and (expires_ms := entry.expires_ms) is not None else UNSET,
        mentions=content.mentions or UNSET,
        mention=content.mention or UNSET,
        state=content.state if content.state is not None else UNSET,
        unavailable=True if entry.is_unavailable else UNSET,
        hidden=True if is_hidden else UNSET,
        sender_only=True if is_for_team and content.only_sender else UNSET,
        reactions=content.reactions or beside.reactions or UNSET,
        reactions_seq=beside.reactions_seq or UNSET,
        pinned=content.pinned if content.pinned is not None else beside.is_pinned or UNSET,
        imported=True if content.imported else UNSET,
        conversation=content.conversation or UNSET,
        thread_seq=entry.thread_seq if entry.thread_seq is not None else UNSET,
        also_here=True if entry.thread_seq is not None and entry.bumps else UNSET,
        thread=beside.thread if beside.thread is not None else UNSET,
    )


def _is_plain(entry: Entry) -> bool:
    """Whether it is a message as it was sent: a text and nothing else, with the time that its sender gave."""
    content, is_new = entry.content, entry.edited_ms is None and entry.timestamp is not None
    return content is not None and is_new and KINDS[entry.kind].is_target and is_plain(content)


def file_of(file: File) -> FileBody:
    return FileBody(file.file_id, file.name, file.mime, file.bytes, file.width, file.height, file.blurhash)


def beside_of(beside: Beside) -> BesideBody:
    """The summary of a message, as the fields of MESSAGE that it is."""
    thread = beside.thread if beside.thread is not None else UNSET
    return BesideBody(beside.reactions or UNSET, beside.reactions_seq or UNSET, beside.is_pinned or UNSET, thread)


def reacted_of(conversation_id: str, seq_no: int, beside: Beside) -> ReactedBody:
    fields = msgspec.structs.asdict(beside_of(beside))
    return ReactedBody(conversation_id=conversation_id, seq=seq_no, **fields)


def history_of(page: HistoryPage) -> HistoryBody:
    return HistoryBody(
        messages=[
            message_of(entry, is_hidden=entry.sender_id in page.blocked, beside=page.beside.get(entry.seq_no))
            for entry in page.entries
        ],
        next_before_seq=page.next_before_seq,
        next_after_seq=page.next_after_seq,
        first_unread_seq=page.first_unread_seq,
        head=page.head,
        delivered_all_seq=page.delivered_all_seq,
        read_all_seq=page.read_all_seq,
    )


def inbox_row_of(item: InboxItem, kind: type[InboxRowBody] = InboxRowBody) -> InboxRowBody:
    """The row as `kind`, which is the row itself or a frame with the same fields."""
    row, state = item.row, item.state
    return kind(
        conversation_id=row.conversation_id,
        kind=row.kind,
        name=row.name,
        avatar_url=row.avatar_url,
        last_message_preview=row.last_message_preview,
        last_message_ts=row.last_message_ts,
        last_seq=row.last_seq,
        unread_count=state.unread_count,
        unread_capped=state.unread_capped,
        read_seq=state.read_seq,
        first_unread_seq=state.first_unread_seq,
        mention_count=state.mention_count or UNSET,
        first_mention_seq=state.first_mention_seq or UNSET,
        muted_until=row.muted_until if row.muted and row.muted_until is not None else UNSET,
        notify=row.notify if row.notify != "all" else UNSET,
        muted=row.muted,
        pinned=row.pinned,
        archived=row.archived,
        requested=True if row.is_requested else UNSET,
        invited=True if row.is_invited else UNSET,
        draft=OwnDraftBody(*item.draft) if item.draft is not None else UNSET,
        last_message=_last_message(row),
        role=row.role or UNSET if row.kind != "direct" else UNSET,
        rules=_rules_of(item.rules),
        data=item.rules.data if item.rules.data is not None else UNSET,
    )


def _last_message(row: Row) -> LastMessageBody | UnsetType:
    """UNSET: there is none, or it is older than what rows hold about it."""
    if row.last_message is None or row.last_seq == 0:
        return UNSET
    last = read_last(row.last_message)
    return LastMessageBody(
        seq=row.last_seq,
        sender_id=last.sender_id,
        kind=last.kind,
        text_preview=UNSET if row.last_message_preview is None else row.last_message_preview,
        deleted=True if last.deleted else UNSET,
        files=last.files or UNSET,
    )


def _rules_of(rules: Rules) -> RulesBody | UnsetType:
    """The rules that differ from the defaults."""
    shown = RulesBody(rules.post, rules.slow_s, rules.frozen, rules.visibility, rules.retention_s)
    return shown if shown != RulesBody() else UNSET


def inbox_of(page: InboxPage) -> InboxBody:
    return InboxBody(
        conversations=[inbox_row_of(item) for item in page.items],
        next_cursor=page.next_cursor,
        total_unread=page.totals.total_unread,
        unread_conversations=page.totals.unread_conversations,
        total_mentions=page.totals.total_mentions or UNSET,
        unread_threads=page.totals.unread_threads or UNSET,
        stale=page.is_stale,
    )


def sent_of(sent: Sent) -> SentBody:
    entry = sent.entry
    content = entry.content if sent.is_other else None
    return SentBody(
        conversation_id=entry.conversation_id,
        message_id=entry.message_id,
        seq=entry.seq_no,
        sent_at=entry.sent_ms,
        duplicate=sent.is_duplicate,
        text=content.text if content is not None else UNSET,
        data=content.data if content is not None and content.data is not None else UNSET,
    )


def begun_of(sent: Sent, offset: int) -> frames.BegunBody:
    return frames.BegunBody(**msgspec.structs.asdict(sent_of(sent)), offset=offset)


def conversation_of(view: View, user_id: str = "") -> ConversationBody:
    """The conversation as one of its members sees it."""
    head, rules = view.head, view.rules
    return ConversationBody(
        conversation_id=head.conversation_id,
        kind=head.kind,
        name=head.name,
        avatar_url=head.avatar_url,
        history=head.history,
        head=head.head,
        created_at=head.created_ms,
        members=[member_of(one) for one in view.members],
        role=next((one.role for one in view.members if one.user_id == user_id), view.role or UNSET),
        members_count=view.members_count or UNSET,
        rules=_rules_of(rules),
        data=rules.data if rules.data is not None else UNSET,
    )


def member_of(member: Member) -> MemberBody:
    return MemberBody(member.user_id, member.role, member.joined_seq, member.joined_ms)


def rate_limits_of(budgets: Mapping[str, Budget]) -> RateLimitsBody:
    return RateLimitsBody({name: BudgetBody(one.limit, one.remaining, one.reset_ms) for name, one in budgets.items()})


# --- events ---------------------------------------------------------------------------------------


class EventEncoder:
    """Encodes the events of one node. It keeps the encoded MESSAGE of the last entries, and the last frame, because
    one event goes to all devices of a user, one after another."""

    def __init__(self) -> None:
        # Keyed by identity: the entry is kept beside its bytes, so its address cannot be taken by another.
        self._entries: dict[int, tuple[Entry, bytes]] = {}
        self._last: pushes.Event | None = None
        self._last_frame = b""

    def encode(self, event: pushes.Event) -> bytes:
        if event is not self._last:
            if type(event) is pushes.MessageNew:
                self._last_frame = self._message_new(event)
            else:
                self._last_frame = _encode(_FRAME_OF[type(event)](event))
            self._last = event
        return self._last_frame

    def _message_new(self, event: pushes.MessageNew) -> bytes:
        entry = event.entry
        known = self._entries.get(id(entry))
        start = known[1] if known is not None else self._start_of(entry)
        if event.beside is not None:
            start = start[:-1] + b"," + _encode(beside_of(event.beside))[1:]
        if event.is_hidden:
            start = start[:-1] + b',"hidden":true}'
        unread = "null" if event.unread_count is None else event.unread_count
        total = "null" if event.total_unread is None else event.total_unread
        capped = "true" if event.unread_capped else "false"
        more = _more_of(event) if event.total_mentions or event.threads else ""
        # Formatting text is faster than formatting bytes.
        end = f',"unread_count":{unread},"unread_capped":{capped},"total_unread":{total}{more}}}'
        return start + end.encode()

    def _start_of(self, entry: Entry) -> bytes:
        start = b'{"type":"message.new","conversation_id":%b,"message":%b' % (
            _encode(entry.conversation_id),
            _encode(message_of(entry)),
        )
        if len(self._entries) >= ENTRIES_CACHED_MAX:
            self._entries.clear()
        self._entries[id(entry)] = (entry, start)
        return start


def _more_of(event: pushes.MessageNew) -> str:
    """The counts of mentions and of the thread, as far as there are any."""
    in_thread, threads = (event.threads or {}).get(event.entry.thread_seq or 0, (None, None))
    pairs = (
        ("mention_count", event.total_mentions and event.mention_count),
        ("total_mentions", event.total_mentions),
        ("unread_threads", threads),
    )
    more = "".join(f',"{name}":{count}' for name, count in pairs if count)
    return more if in_thread is None else f'{more},"thread_unread_count":{in_thread}'


def _read_synced(event: pushes.ReadSynced) -> frames.ReadSyncedFrame:
    state = event.state
    return frames.ReadSyncedFrame(
        conversation_id=state.conversation_id,
        read_seq=state.read_seq,
        unread_count=state.unread_count,
        total_unread=state.total_unread,
        unread_capped=state.unread_capped,
        mention_count=state.mention_count or UNSET,
        first_mention_seq=state.first_mention_seq or UNSET,
        total_mentions=state.total_mentions or UNSET,
        thread_seq=state.thread_seq if state.thread_seq is not None else UNSET,
        unread_threads=state.unread_threads or UNSET,
    )


def _totals_synced(event: pushes.TotalsSynced) -> frames.ReadSyncedFrame:
    totals = event.totals
    return frames.ReadSyncedFrame(
        total_unread=totals.total_unread,
        unread_conversations=totals.unread_conversations,
        total_mentions=totals.total_mentions or UNSET,
        unread_threads=totals.unread_threads or UNSET,
    )


def _as(frame: type[msgspec.Struct]) -> Callable[[Any], msgspec.Struct]:
    """Encode an event that has the fields of the frame."""
    names = frame.__struct_fields__
    return lambda event: frame(**{name: getattr(event, name) for name in names})


_FRAME_OF: dict[type, Callable[[Any], msgspec.Struct]] = {
    pushes.ReadSynced: _read_synced,
    pushes.MessageAppended: _as(frames.MessageAppendedFrame),
    pushes.TotalsSynced: _totals_synced,
    pushes.Resumed: _as(frames.ResumedFrame),
    pushes.Receipt: _as(frames.ReceiptFrame),
    pushes.ReceiptSummary: _as(frames.ReceiptSummaryFrame),
    pushes.Typing: _as(frames.TypingFrame),
    pushes.Presence: _as(frames.PresenceFrame),
    pushes.Blocked: _as(frames.BlockFrame),
    pushes.ScheduledFailed: _as(frames.ScheduledFailedFrame),
    pushes.DraftChanged: _as(frames.DraftFrame),
    pushes.ConversationAdded: lambda event: inbox_row_of(event.item, frames.ConversationAddedFrame),
    pushes.ConversationUpdated: lambda event: inbox_row_of(event.item, frames.ConversationUpdatedFrame),
    pushes.ConversationRemoved: _as(frames.ConversationRemovedFrame),
    pushes.DeviceRemoved: _as(frames.DeviceRemovedFrame),
}
