"""Routes of drafts."""

from __future__ import annotations

from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.reading.drafts import Drafts, NewerDraft, OwnDraft
from tidings.protocol.bodies import ErrorFacts
from tidings.protocol.client_frames import check_text
from tidings.protocol.own_bodies import DraftBody, DraftPut, NewerDraftBody


class DraftRoutes(Routes):
    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts

    @route(
        "PUT",
        "/v1/drafts/{conversation_id}",
        body=DraftPut,
        answer=DraftBody,
        errors=("not_found", "too_large", "conflict"),
    )
    async def put(self, request: Request) -> Reply:
        """Store a draft for all devices of the caller; an empty text removes it."""
        asked: DraftPut = request.body
        check_text(asked.text)
        try:
            made = await self._drafts.put(request.user_id, request.id(), asked.text, asked.version)
        except NewerDraft as problem:
            facts = ErrorFacts(problem.code, str(problem), problem.is_temporary, problem.retry_after_ms)
            return Reply(problem.status, NewerDraftBody(facts, _body(request.id(), problem.draft)))
        return Reply(200, _body(request.id(), made))


def _body(conversation_id: str, draft: OwnDraft) -> DraftBody:
    return DraftBody(conversation_id, draft.text, draft.version)
