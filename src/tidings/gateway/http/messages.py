"""Routes of a conversation's log: history, sends, edits, deletes, marks and receipts. A REST send is never held."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET

from tidings.bounds import PAGE_MAX
from tidings.errors import BadCursor, BadRequest
from tidings.gateway.dispatch import content_of, payment
from tidings.gateway.encode import history_of, message_of, sent_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.ids import is_user_id
from tidings.messaging.lifecycle.expiry import expiring
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reading.history import History
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.send.edit import Rewrites
from tidings.messaging.send.lanes import Sends
from tidings.messaging.threads.threads import Threads
from tidings.messaging.unread.unread import Unread
from tidings.model import ContentPatch
from tidings.protocol.bodies import (
    HistoryBody,
    HistoryQuery,
    MessageBody,
    MessageDelete,
    MessageDeleteQuery,
    MessagePatch,
    NewMessage,
    ReadMark,
    ReadStateBody,
    ReceiptsBody,
    ReceiptsQuery,
    ReceiptTimes,
    SentBody,
    UnreadMark,
)
from tidings.protocol.client_frames import (
    check_content,
    check_data,
    check_one_mark,
    check_one_place,
    check_text,
    check_thread,
    check_thread_place,
)
from tidings.protocol.fields import PickedHistoryBody, history_fields, picked_history

_CONVERSATION = "/v1/conversations/{conversation_id}"
_LOG = _CONVERSATION + "/messages"
_ENTRY = _LOG + "/{seq}"
_REFUSED = ("not_found", "forbidden", "conflict", "too_large")


@dataclass(eq=False, repr=False)
class MessageRoutes(Routes):
    history: History
    sends: Sends
    rewrites: Rewrites
    unread: Unread
    threads: Threads
    receipts: Receipts
    limiter: Limiter

    @route(
        "GET",
        _LOG,
        query=HistoryQuery,
        answer=HistoryBody,
        picked=PickedHistoryBody,
        errors=("bad_cursor", "not_found"),
    )
    async def page(self, request: Request) -> Reply:
        """Read a page of history, newest first."""
        query: HistoryQuery = request.query
        names = history_fields(query.fields)
        check_one_place(query.before_seq, query.after_seq, query.around_seq, query.anchor)
        check_thread_place(query.thread_seq, query.around_seq, query.anchor)
        if query.thread_seq is not None:
            replies = await self.threads.replies(
                request.user_id,
                request.id(),
                query.thread_seq,
                before_seq=query.before_seq,
                after_seq=query.after_seq,
                limit=query.limit,
            )
            return Reply(200, picked_history(history_of(replies), names))
        page = await self.history.page(
            request.user_id,
            request.id(),
            before_seq=query.before_seq,
            after_seq=query.after_seq,
            around_seq=query.around_seq,
            anchor=query.anchor,
            limit=min(query.limit, PAGE_MAX),
        )
        return Reply(200, picked_history(history_of(page), names))

    @route("GET", _ENTRY, answer=MessageBody, errors=("not_found",))
    async def entry(self, request: Request) -> Reply:
        """Show one entry as it is now."""
        entry, is_hidden, beside = await self.history.shown(request.user_id, request.id(), request.seq())
        return Reply(200, message_of(entry, is_hidden=is_hidden, beside=beside))

    @route(
        "POST",
        _LOG,
        is_send=True,
        body=NewMessage,
        answer=SentBody,
        statuses=(201, 200),
        errors=("not_found", "conflict", "too_large"),
    )
    async def send(self, request: Request) -> Reply:
        """Send a message; 200 when this message_id was stored before."""
        asked: NewMessage = request.body
        check_content(asked.text, asked.data, asked.files)
        check_thread(asked.thread_seq, also_here=asked.also_here)
        content = content_of(asked)
        message_id = asked.message_id or self.sends.new_id()
        companion = expiring(content, request.id(), request.user_id, message_id)
        sent = await self.sends.send(request.user_id, request.id(), message_id, content, asked.ts, companion)
        return Reply(200 if sent.is_duplicate else 201, sent_of(sent))

    @route("PATCH", _ENTRY, body=MessagePatch, answer=SentBody, errors=_REFUSED)
    async def edit(self, request: Request) -> Reply:
        """Edit an own message."""
        asked: MessagePatch = request.body
        if all(given is UNSET for given in (asked.text, asked.data, asked.mentions, asked.mention)):
            raise BadRequest("give `text`, `data` or `mentions`")
        if asked.text is not UNSET:
            check_text(asked.text)
        if asked.data:
            check_data(asked.data)
        mentions = tuple(dict.fromkeys(asked.mentions)) if asked.mentions is not UNSET else UNSET
        patch = ContentPatch(asked.text, asked.data, mentions, asked.mention)
        sent = await self.rewrites.edit(request.user_id, request.id(), request.seq(), patch, asked.message_id)
        return Reply(200, sent_of(sent))

    @route(
        "DELETE",
        _ENTRY,
        query=MessageDeleteQuery,
        body=MessageDelete,
        is_body_optional=True,
        answer=SentBody,
        errors=_REFUSED,
    )
    async def delete(self, request: Request) -> Reply:
        """Delete a message: the sender, or an admin."""
        message_id = request.body.message_id or request.query.message_id
        sent = await self.rewrites.delete(request.user_id, request.id(), request.seq(), message_id)
        return Reply(200, sent_of(sent))

    @route("POST", _CONVERSATION + "/read", body=ReadMark, answer=ReadStateBody, errors=("not_found", "too_large"))
    async def mark_read(self, request: Request) -> Reply:
        """Mark messages as read: up to a seq, up to a time, or a list of seqs."""
        mark: ReadMark = request.body
        if mark.threads:
            if mark != ReadMark(threads=True):
                raise BadRequest("`threads` reads all threads; give nothing else with it")
            return Reply(200, await self.threads.read_all(request.user_id, request.id()))
        check_one_mark(mark.up_to_seq, mark.up_to_ts, mark.seqs)
        if mark.thread_seq is not None:
            in_thread = await self.threads.mark_read(
                request.user_id,
                request.id(),
                mark.thread_seq,
                up_to_seq=mark.up_to_seq,
                up_to_ts=mark.up_to_ts,
                seqs=mark.seqs,
            )
            return Reply(200, in_thread)
        state = await self.unread.mark_read(
            request.user_id, request.id(), up_to_seq=mark.up_to_seq, up_to_ts=mark.up_to_ts, seqs=mark.seqs
        )
        return Reply(200, state)

    @route("POST", _CONVERSATION + "/unread", body=UnreadMark, answer=ReadStateBody, errors=("not_found",))
    async def mark_unread(self, request: Request) -> Reply:
        """Mark everything from a seq on as unread."""
        mark: UnreadMark = request.body
        pay = payment(self.limiter, request.user_id)
        if mark.thread_seq is not None:
            place = request.user_id, request.id(), mark.thread_seq
            return Reply(200, await self.threads.mark_unread(*place, from_seq=mark.from_seq, pay=pay))
        state = await self.unread.mark_unread(request.user_id, request.id(), from_seq=mark.from_seq, pay=pay)
        return Reply(200, state)

    @route("GET", _ENTRY + "/receipts", query=ReceiptsQuery, answer=ReceiptsBody, errors=("not_found", "bad_cursor"))
    async def message_receipts(self, request: Request) -> Reply:
        """List the members who have the message, and those who have read it. A large conversation comes in pages."""
        query: ReceiptsQuery = request.query
        if query.cursor and not is_user_id(query.cursor):
            raise BadCursor()
        found = await self.receipts.of_message(
            request.user_id, request.id(), request.seq(), after_id=query.cursor or "", limit=query.limit
        )
        times = {
            user_id: ReceiptTimes(one.delivered_ms or UNSET, one.read_ms or UNSET)
            for user_id, one in found.times.items()
        }
        return Reply(200, ReceiptsBody(*found[:3], times or UNSET, found.next_cursor or UNSET))
