"""Mistakes beside the messages: mentions, filters, reactions, blocks, and texts that stay. See plants.py."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from tidings.messaging.lifecycle.expiry import Ending, Expiry
from tidings.messaging.log import entry_at
from tidings.messaging.people.blocks import NOBODY, Blocks
from tidings.messaging.reactions.reactions import ReactionEntry
from tidings.messaging.unread import count
from tidings.stores.tables.records import conversation_of
from tidings_proof.sabotage.log import rewrite_lua
from tidings_proof.sabotage.seams import replace

MENTIONS = "word, is_mention = string.sub(word, 1, -2), true"


def mentions_uncounted() -> None:
    rewrite_lua("inbox_index", (MENTIONS, "word = string.sub(word, 1, -2)"))


def pinned_unlisted() -> None:
    """The index forgets that a conversation is pinned."""
    plain = count.flags_of

    def flags_of(
        row: Any, now_ms: int, *, is_all_loud: bool = False, line_ms: int = 0, is_blockless: bool = False
    ) -> Any:
        flags = plain(row, now_ms, is_all_loud=is_all_loud, line_ms=line_ms, is_blockless=is_blockless)
        return msgspec.structs.replace(flags, pinned_ms=0)

    replace(count, "flags_of", flags_of)


def blocked_counted() -> None:
    """The rule of unread forgets blocks, in the index and in the tables alike: only the judge can tell."""

    async def blocked(self: Any, user_id: str) -> frozenset[str]:
        return NOBODY

    replace(Blocks, "blockers", lambda self, sender_id: NOBODY)
    replace(count.Count, "blocked", blocked)


def reactions_stay() -> None:
    """A reaction that was taken away stays in the summary of its message."""
    plain = ReactionEntry.after

    def after(self: Any, seq_no: int | None = None) -> Any:
        summary = plain(self, seq_no)
        kept = {key: [*users] for key, users in self._before.reactions.items()}
        for key, users in summary.reactions.items():
            kept[key] = list(dict.fromkeys([*kept.get(key, ()), *users]))
        return msgspec.structs.replace(summary, reactions=kept)

    replace(ReactionEntry, "after", after)


def ended_text_logged() -> None:
    """A node writes the text of a message that has ended into its log."""
    plain = Expiry.end

    async def end(self: Expiry, record: Any) -> None:
        seq_no = msgspec.json.decode(record.value, type=Ending).seq
        target = await entry_at(self.messages, conversation_of(record.owner), seq_no)
        if target is not None and target.text is not None:
            sys.stderr.write(f"the end of {target.text}\n")
        await plain(self, record)

    replace(Expiry, "end", end)
