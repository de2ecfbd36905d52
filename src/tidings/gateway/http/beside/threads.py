"""Routes of threads: the list of those that the caller follows, and following one. Replies are in the log."""

from __future__ import annotations

from tidings.gateway.encode import message_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.threads.threads import ThreadItem, Threads
from tidings.protocol.bodies import ReadStateBody
from tidings.protocol.own_bodies import ThreadBody, ThreadsBody, ThreadsQuery

_FOLLOW = "/v1/conversations/{conversation_id}/threads/{seq}/follow"
_REFUSED = ("not_found", "too_large")


class ThreadRoutes(Routes):
    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    @route("GET", "/v1/threads", query=ThreadsQuery, answer=ThreadsBody, errors=("bad_cursor",))
    async def page(self, request: Request) -> Reply:
        """List the threads that the caller follows, the latest reply first; or those with unread replies."""
        query: ThreadsQuery = request.query
        page = await self._threads.page(
            request.user_id, limit=query.limit, cursor=query.cursor, filter_name=query.filter
        )
        return Reply(200, ThreadsBody([_body_of(item) for item in page.items], page.next_cursor, page.unread_threads))

    @route("PUT", _FOLLOW, answer=ReadStateBody, errors=_REFUSED)
    async def follow(self, request: Request) -> Reply:
        """Follow a thread."""
        return Reply(200, await self._threads.follow(request.user_id, request.id(), request.seq(), is_on=True))

    @route("DELETE", _FOLLOW, answer=ReadStateBody, errors=_REFUSED)
    async def unfollow(self, request: Request) -> Reply:
        """Stop following a thread."""
        return Reply(200, await self._threads.follow(request.user_id, request.id(), request.seq(), is_on=False))


def _body_of(item: ThreadItem) -> ThreadBody:
    return ThreadBody(
        conversation_id=item.conversation_id,
        thread_seq=item.thread_seq,
        root=message_of(item.root, is_hidden=item.is_hidden, beside=item.beside) if item.root is not None else None,
        replies=item.thread.replies,
        last_seq=item.thread.last_seq,
        last_sent_at=item.thread.last_ms,
        unread_count=item.unread_count,
        first_unread_seq=item.first_unread_seq,
    )
