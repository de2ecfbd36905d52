"""Stage: review. The before-send hook decides about messages and edits between admit and number.

A refused message never has a number, so the log has no hole. Only deployments with a hook have this stage. Each group
with something to ask about goes on as a batch of its own, so its conversation alone waits for the endpoint, and the
order of its devices stays. All drafts of a group are asked about side by side.

A resend is recognised first: a message whose row is in the log keeps the verdict that it had. The digest of a row is
that of the content as sent, so the resend of a rewritten message is a duplicate and no conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import msgspec

from tidings.clock import Clock
from tidings.errors import Forbidden, StoreUnavailable
from tidings.messaging.integration.before_send import BeforeSend, Question, Verdict, reason_in
from tidings.messaging.log import entry_at
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.messaging.send.counters import numbers_had
from tidings.messaging.send.draft import Draft
from tidings.model import KINDS, Content, ContentPatch
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.ports import Messages


@dataclass(eq=False, repr=False)
class Review:
    before_send: BeforeSend
    keyspace: Keyspace
    keys: Keys
    messages: Messages
    clock: Clock
    _: KW_ONLY
    allows_on_failure: bool

    async def close(self) -> None:
        await self.before_send.close()

    def concerns(self, group: BatchGroup) -> bool:
        return any(_is_asked(draft) for draft in group.drafts)

    async def judge(self, batch: Batch) -> None:
        """Ask about every draft of the batch that says something, and do as the endpoint says. Raises StoreError."""
        for group in batch.groups:
            asked = await self._unknown([draft for draft in group.drafts if _is_asked(draft)])
            questions = (self.before_send.ask(group.conversation_id, _question(draft)) for draft in asked)
            verdicts = await asyncio.gather(*questions)
            for draft, verdict in zip(asked, verdicts, strict=True):
                self._apply(group, draft, verdict)
        batch.live = [group for group in batch.groups if group.drafts]
        batch.lap("review")

    def _apply(self, group: BatchGroup, draft: Draft, verdict: Verdict | None) -> None:
        if verdict is None:
            if not self.allows_on_failure:
                group.refuse(draft, StoreUnavailable("the hook that decides about messages did not answer"))
            return
        if verdict.verdict == "rewrite":
            _rewrite(draft, verdict)
        elif verdict.verdict == "sender_only" and draft.target is None:
            assert draft.content is not None
            draft.content = msgspec.structs.replace(draft.content, only_sender=True)
        elif verdict.verdict != "allow":
            _refuse(group, draft, verdict)
        draft.is_plain = group.is_plain = False  # the verdict may have changed what it says

    async def _unknown(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts that are not in the log, as far as the keyspace knows."""
        numbers = await numbers_had(self.keyspace, self.keys, drafts, self.clock.now_ms())
        is_there = await asyncio.gather(*map(self._is_stored, drafts, numbers))
        return [draft for draft, is_stored in zip(drafts, is_there, strict=True) if not is_stored]

    async def _is_stored(self, draft: Draft, number: bytes | None) -> bool:
        if not number:
            return False
        row = await entry_at(self.messages, draft.conversation_id, int(number.partition(b":")[0]))
        return row is not None and draft.is_in(row)


def _is_asked(draft: Draft) -> bool:
    kind = KINDS[draft.kind]
    return draft.content is not None and (kind.counts or kind.rewrites) and not draft.is_of_server


def _rewrite(draft: Draft, verdict: Verdict) -> None:
    """Put the text and the data of the verdict in place of the author's. A field that it leaves out stays."""
    patch = ContentPatch(
        text=verdict.text if verdict.text is not None else msgspec.UNSET,
        data=verdict.data if verdict.data is not None else msgspec.UNSET,
    )
    draft.content, draft.is_rewritten = patch.apply(draft.content), True
    if draft.patch is not None:  # of an edit: a target that changed meanwhile must not bring the author's words back
        draft.patch = msgspec.structs.replace(
            draft.patch,
            **{name: value for name in ("text", "data") if (value := getattr(patch, name)) is not msgspec.UNSET},
        )


def _refuse(group: BatchGroup, draft: Draft, verdict: Verdict) -> None:
    """Refuse the draft. The end of a streamed message is stored without the text that came after its begin."""
    target = draft.target.content if draft.target is not None else None
    if target is not None and target.state == "streaming":
        draft.content, draft.refusal = _cut_short(target), Forbidden(reason_in(verdict))
        return
    group.refuse(draft, Forbidden(reason_in(verdict)))


def _cut_short(content: Content) -> Content:
    return msgspec.structs.replace(content, state="interrupted")


def _question(draft: Draft) -> Question:
    content = draft.content
    assert content is not None
    return Question(
        kind=draft.kind,
        message_id=draft.message_id,
        sender_id=draft.sender_id,
        text=content.text,
        data=content.data,
        silent=content.silent,
        reply_to=content.reply_to,
        target_seq=draft.target.seq_no if draft.target is not None else None,
        mentions=content.mentions,
        mention=content.mention,
        files=tuple(file.file_id for file in content.files),
        state=content.state,
    )
