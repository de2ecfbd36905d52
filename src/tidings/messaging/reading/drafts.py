"""Drafts of texts: what a user has typed and not sent, on all devices.

A draft is a record of the user. Its version is the version of the record, so it never comes twice: a device names the
version that it has seen, and learns the newer draft where another device was first. An empty text removes the text and
leaves the version. A device that has seen no draft names 0.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidings.errors import Conflict, IdConflict
from tidings.messaging.access import Access
from tidings.pushes import DraftChanged
from tidings.routing.router import Router
from tidings.stores.tables.records import Put, Record, Records, of_user


class OwnDraft(NamedTuple):
    text: str
    version: int


DRAFTS = "drafts"  # by conversation; the value is the text
NO_DRAFT = OwnDraft("", 0)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


class NewerDraft(IdConflict):
    """Another device has written a newer draft."""

    def __init__(self, draft: OwnDraft) -> None:
        super().__init__("another device has changed the draft")
        self.draft = draft


class Drafts:
    def __init__(self, access: Access, records: Records, router: Router) -> None:
        self._access = access
        self._records = records
        self._router = router

    async def put(self, user_id: str, conversation_id: str, text: str, version: int) -> OwnDraft:
        """Replace the draft of this version, and push the new one to the devices. Raises NotFound, NewerDraft."""
        await self._access.authorize(user_id, conversation_id, "read")
        owner = of_user(user_id)
        while True:
            found = await self._records.get(owner, DRAFTS, [conversation_id])
            now = draft_of(found.get(conversation_id))
            if now.text == text:
                return now  # a repeated request, or nothing to say
            if version != now.version and (version > 0 or now.text):
                raise NewerDraft(now)
            try:
                await self._records.put([Put(owner, DRAFTS, conversation_id, _encode(text), expected=now.version)])
            except Conflict:
                continue  # another device was first in this moment
            made = OwnDraft(text, now.version + 1)
            self._router.push(user_id, DraftChanged(conversation_id, made.text, made.version))
            return made


def draft_of(record: Record | None) -> OwnDraft:
    return OwnDraft(_decode(record.value), record.version) if record is not None else NO_DRAFT
