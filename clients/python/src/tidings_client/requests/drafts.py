"""Drafts of one user, on all devices: `account.drafts`."""

from __future__ import annotations

import msgspec

from tidings_client.errors import IdConflict
from tidings_client.forms import Seq, path_of
from tidings_client.rest import Rest


class DraftPut(msgspec.Struct, frozen=True):
    text: str
    version: Seq


class SavedDraft(msgspec.Struct, frozen=True):
    """A text that is not sent yet. An empty text: there is none."""

    conversation_id: str
    text: str
    version: int


class NewerDraft(IdConflict):
    """Another device has changed the draft. `draft` is the newer one."""

    def __init__(self, draft: SavedDraft) -> None:
        super().__init__("another device has changed the draft")
        self.draft = draft


class _Refused(msgspec.Struct, frozen=True):
    draft: SavedDraft


class OwnDrafts:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def put(self, conversation_id: str, text: str, version: int) -> SavedDraft:
        """Replace the draft of this version; 0 where there was none. An empty text removes it. Raises NewerDraft."""
        path, body = path_of("drafts", conversation_id), DraftPut(text, version)
        try:
            return await self._rest.send("PUT", path, SavedDraft, body, is_repeatable=True)
        except IdConflict as problem:
            raise NewerDraft(msgspec.json.decode(problem.answer, type=_Refused).draft) from None
