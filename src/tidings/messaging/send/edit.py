"""Edits and deletes: a message gets another content, or none. The old content goes, that of earlier edits too.

Each is a numbered entry of its own that names its target, and goes the way of a message. This module decides who may
rewrite: the sender of the message, and for a delete also those who lead the conversation.
"""

from __future__ import annotations

from msgspec import UNSET

from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, NotFound
from tidings.messaging.access import Access, Action
from tidings.messaging.log import Log, entry_at
from tidings.messaging.send.draft import Companion, Draft
from tidings.messaging.send.lanes import Sends
from tidings.model import KINDS, Content, ContentPatch, Entry, EntryKind, Sent, digest_of
from tidings.stores.tables.ports import Messages


class Rewrites:
    def __init__(self, access: Access, messages: Messages, log: Log, sends: Sends, clock: Clock) -> None:
        self._access = access
        self._messages = messages
        self._log = log
        self._sends = sends
        self._clock = clock

    async def edit(
        self, user_id: str, conversation_id: str, seq_no: int, patch: ContentPatch, message_id: str | None = None
    ) -> Sent:
        target = await self._target(user_id, conversation_id, seq_no, "write")
        if target.sender_id != user_id:
            raise Forbidden("only its sender may edit a message")
        if target.s3_ref is not None:  # the edit keeps a part of the content, so it is needed here
            target = await self._log.entry(conversation_id, seq_no) or target
        if target.content is not None and target.content.state == "streaming":
            raise BadRequest("the message is still being written; send `message.end` first")
        if target.content is not None and _empties(patch, target.content):
            raise BadRequest("`text` is empty; a message needs a text, `data` or `files`; delete it instead")
        return await self._rewrite("edit", user_id, target, patch, message_id)

    async def delete(self, user_id: str, conversation_id: str, seq_no: int, message_id: str | None = None) -> Sent:
        target = await self._target(user_id, conversation_id, seq_no, "read")
        if target.sender_id != user_id:
            await self._access.authorize(user_id, conversation_id, "moderate")
        return await self._rewrite("delete", user_id, target, None, message_id)

    async def remove(self, target: Entry, companion: Companion | None = None) -> Sent:
        """Delete a message for the server, in the name of its sender, who may have left. Raises NotFound."""
        return await self._rewrite("delete", target.sender_id or "", target, None, None, companion, is_of_server=True)

    async def _target(self, user_id: str, conversation_id: str, seq_no: int, action: Action) -> Entry:
        member_list = await self._access.authorize(user_id, conversation_id, action)
        found = await entry_at(self._messages, conversation_id, seq_no)
        is_visible = seq_no > member_list.visible_after(user_id)
        if found is None or not is_visible or not KINDS[found.kind].is_target:
            raise NotFound("no such message")
        return found

    async def _rewrite(
        self,
        kind: EntryKind,
        user_id: str,
        target: Entry,
        patch: ContentPatch | None,
        message_id: str | None,
        companion: Companion | None = None,
        *,
        is_of_server: bool = False,
    ) -> Sent:
        if target.is_deleted and message_id is None:
            raise NotFound("no such message")  # with an id it may be a resend, which the store stage recognises
        draft = Draft(
            sender_id=user_id,
            conversation_id=target.conversation_id,
            message_id=message_id or self._clock.random_id(),
            kind=kind,
            content=patch.apply(target.content) if patch is not None else None,
            target=target,
            patch=patch,
            plain_digest=_digest(kind, target, patch),
            companion=companion,
            is_of_server=is_of_server,
        )
        return await self._sends.complete(draft)


def _empties(patch: ContentPatch, content: Content) -> bool:
    """Say whether the edit takes away all that the message says."""
    is_asked, left = patch.text is not UNSET or patch.data is not UNSET, patch.apply(content)
    return is_asked and (not left.text or left.text.isspace()) and not left.data and not left.files


def _digest(kind: EntryKind, target: Entry, patch: ContentPatch | None) -> bytes:
    """The digest of what the author asked for. It does not depend on the content that the target has meanwhile."""
    if patch is None:
        return digest_of(None, f"{kind} {target.seq_no}\0")
    removes = " data" if patch.data is None else ""
    if patch.mentions is not UNSET or patch.mention is not UNSET:
        removes += f" {patch.mentions} {patch.mention}"
    return digest_of(patch.apply(None), f"{kind} {target.seq_no}{removes}\0")
