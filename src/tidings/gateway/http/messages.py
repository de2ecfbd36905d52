"""Routes of a conversation's log: history, sends, edits, deletes, marks and receipts. A REST send is never held."""

from __future__ import annotations

from msgspec import UNSET

from tidings.bounds import PAGE_MAX
from tidings.errors import BadRequest
from tidings.gateway.dispatch import content_of, payment
from tidings.gateway.encode import history_of, message_of, sent_of
from tidings.gateway.http.routes import Reply, Request, Route
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

_CONVERSATION = "/v1/conversations/{conversation_id}"
_LOG = _CONVERSATION + "/messages"
_ENTRY = _LOG + "/{seq}"


class MessageRoutes:
    def __init__(
        self,
        history: History,
        sends: Sends,
        rewrites: Rewrites,
        unread: Unread,
        threads: Threads,
        receipts: Receipts,
        limiter: Limiter,
    ) -> None:
        self._limiter = limiter
        self._history = history
        self._sends = sends
        self._rewrites = rewrites
        self._unread = unread
        self._threads = threads
        self._receipts = receipts

    def routes(self) -> list[Route]:
        return [*self._log_routes(), *self._mark_routes()]

    def _log_routes(self) -> list[Route]:
        refused = ("not_found", "forbidden", "conflict", "too_large")
        return [
            Route(
                "GET",
                _LOG,
                self.page,
                "A page of history, newest first",
                query=HistoryQuery,
                answer=HistoryBody,
                errors=("bad_cursor", "not_found"),
            ),
            Route(
                "POST",
                _LOG,
                self.send,
                "Send a message; 200 when this message_id was stored before",
                is_send=True,
                body=NewMessage,
                answer=SentBody,
                statuses=(201, 200),
                errors=("not_found", "conflict", "too_large"),
            ),
            Route("GET", _ENTRY, self.entry, "One entry as it is now", answer=MessageBody, errors=("not_found",)),
            Route(
                "PATCH", _ENTRY, self.edit, "Edit an own message", body=MessagePatch, answer=SentBody, errors=refused
            ),
            Route(
                "DELETE",
                _ENTRY,
                self.delete,
                "Delete a message: the sender, or an admin",
                query=MessageDeleteQuery,
                body=MessageDelete,
                is_body_optional=True,
                answer=SentBody,
                errors=refused,
            ),
        ]

    def _mark_routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                _CONVERSATION + "/read",
                self.mark_read,
                "Mark read: up to a seq, up to a time, or these",
                body=ReadMark,
                answer=ReadStateBody,
                errors=("not_found", "too_large"),
            ),
            Route(
                "POST",
                _CONVERSATION + "/unread",
                self.mark_unread,
                "Mark everything from a seq on as unread",
                body=UnreadMark,
                answer=ReadStateBody,
                errors=("not_found",),
            ),
            Route(
                "GET",
                _ENTRY + "/receipts",
                self.receipts,
                "Who has it and who has read it",
                answer=ReceiptsBody,
                errors=("not_found",),
            ),
        ]

    async def page(self, request: Request) -> Reply:
        query: HistoryQuery = request.query
        check_one_place(query.before_seq, query.after_seq, query.around_seq, query.anchor)
        check_thread_place(query.thread_seq, query.around_seq, query.anchor)
        if query.thread_seq is not None:
            replies = await self._threads.replies(
                request.user_id,
                request.id(),
                query.thread_seq,
                before_seq=query.before_seq,
                after_seq=query.after_seq,
                limit=query.limit,
            )
            return Reply(200, history_of(replies))
        page = await self._history.page(
            request.user_id,
            request.id(),
            before_seq=query.before_seq,
            after_seq=query.after_seq,
            around_seq=query.around_seq,
            anchor=query.anchor,
            limit=min(query.limit, PAGE_MAX),
        )
        return Reply(200, history_of(page))

    async def entry(self, request: Request) -> Reply:
        return Reply(200, message_of(await self._history.entry(request.user_id, request.id(), request.seq())))

    async def send(self, request: Request) -> Reply:
        asked: NewMessage = request.body
        check_content(asked.text, asked.data, asked.files)
        check_thread(asked.thread_seq, also_here=asked.also_here)
        content = content_of(asked)
        message_id = asked.message_id or self._sends.new_id()
        companion = expiring(content, request.id(), request.user_id, message_id)
        sent = await self._sends.send(request.user_id, request.id(), message_id, content, asked.ts, companion)
        return Reply(200 if sent.is_duplicate else 201, sent_of(sent))

    async def edit(self, request: Request) -> Reply:
        asked: MessagePatch = request.body
        if all(given is UNSET for given in (asked.text, asked.data, asked.mentions, asked.mention)):
            raise BadRequest("give `text`, `data` or `mentions`")
        if asked.text is not UNSET:
            check_text(asked.text)
        if asked.data:
            check_data(asked.data)
        mentions = tuple(dict.fromkeys(asked.mentions)) if asked.mentions is not UNSET else UNSET
        patch = ContentPatch(asked.text, asked.data, mentions, asked.mention)
        sent = await self._rewrites.edit(request.user_id, request.id(), request.seq(), patch, asked.message_id)
        return Reply(200, sent_of(sent))

    async def delete(self, request: Request) -> Reply:
        message_id = request.body.message_id or request.query.message_id
        sent = await self._rewrites.delete(request.user_id, request.id(), request.seq(), message_id)
        return Reply(200, sent_of(sent))

    async def mark_read(self, request: Request) -> Reply:
        mark: ReadMark = request.body
        if mark.threads:
            if mark != ReadMark(threads=True):
                raise BadRequest("`threads` reads all threads; give nothing else with it")
            return Reply(200, await self._threads.read_all(request.user_id, request.id()))
        check_one_mark(mark.up_to_seq, mark.up_to_ts, mark.seqs)
        if mark.thread_seq is not None:
            in_thread = await self._threads.mark_read(
                request.user_id,
                request.id(),
                mark.thread_seq,
                up_to_seq=mark.up_to_seq,
                up_to_ts=mark.up_to_ts,
                seqs=mark.seqs,
            )
            return Reply(200, in_thread)
        state = await self._unread.mark_read(
            request.user_id, request.id(), up_to_seq=mark.up_to_seq, up_to_ts=mark.up_to_ts, seqs=mark.seqs
        )
        return Reply(200, state)

    async def mark_unread(self, request: Request) -> Reply:
        mark: UnreadMark = request.body
        pay = payment(self._limiter, request.user_id)
        if mark.thread_seq is not None:
            place = request.user_id, request.id(), mark.thread_seq
            return Reply(200, await self._threads.mark_unread(*place, from_seq=mark.from_seq, pay=pay))
        state = await self._unread.mark_unread(request.user_id, request.id(), from_seq=mark.from_seq, pay=pay)
        return Reply(200, state)

    async def receipts(self, request: Request) -> Reply:
        read, delivered, pending = await self._receipts.of_message(request.user_id, request.id(), request.seq())
        return Reply(200, ReceiptsBody(read, delivered, pending))
