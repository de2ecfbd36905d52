"""Holds: a refused send must not be overtaken by a later one of the same device in the same conversation.

A send refused as temporary starts a hold for its connection and conversation; later sends join it in order and are
answered `held`. Only the first of a hold may pass. It ends when it is empty: sent again and stored, abandoned, or the
connection is gone. REST sends have no origin and are never held. admitting.py asks it, send.py says what was refused.
"""

from __future__ import annotations

from itertools import takewhile

from tidings.bounds import HOLD_MESSAGES_MAX


class Holds:
    def __init__(self) -> None:
        # origin -> conversation -> message_ids in the order they were first sent
        self._held: dict[str, dict[str, dict[str, None]]] = {}

    def is_held(self, origin: str | None, conversation_id: str, message_id: str) -> bool:
        """May this send not pass now? It joins the hold if it may not."""
        hold = self._of(origin, conversation_id)
        if not hold or next(iter(hold)) == message_id:
            return False
        if len(hold) < HOLD_MESSAGES_MAX:
            hold.setdefault(message_id)
        return True

    def let_pass(self, origin: str | None, conversation_id: str, message_id: str) -> None:
        """The first of a hold goes on its way; if it is refused again, `refuse` puts it back in front."""
        hold = self._of(origin, conversation_id)
        if hold and next(iter(hold)) == message_id:
            del hold[message_id]
            self._tidy(origin, conversation_id)

    def join(self, origin: str | None, conversation_id: str, message_id: str) -> None:
        """Refused before it was looked at: it comes after everything that waits, and everything later after it."""
        if origin is not None:
            hold = self._held.setdefault(origin, {}).setdefault(conversation_id, {})
            if len(hold) < HOLD_MESSAGES_MAX:
                hold.setdefault(message_id)

    def refuse(self, origin: str | None, conversation_id: str, message_ids: list[str]) -> None:
        """These were refused, in the order they came. What came before all that wait passed before them; what came
        after one that waits was refused with it, before anything was looked at, and stays behind."""
        if origin is None or not message_ids:
            return
        conversations = self._held.setdefault(origin, {})
        waiting = conversations.get(conversation_id, {})
        passed = takewhile(lambda id_: id_ not in waiting, message_ids)
        conversations[conversation_id] = dict.fromkeys(passed) | waiting | dict.fromkeys(message_ids)

    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None:
        hold = self._of(origin, conversation_id)
        if hold is not None:
            hold.pop(message_id, None)
            self._tidy(origin, conversation_id)

    def forget(self, origin: str) -> None:
        """The connection is gone, and its holds with it."""
        self._held.pop(origin, None)

    def _of(self, origin: str | None, conversation_id: str) -> dict[str, None] | None:
        if not self._held or origin is None:
            return None
        conversations = self._held.get(origin)
        return conversations.get(conversation_id) if conversations else None

    def _tidy(self, origin: str | None, conversation_id: str) -> None:
        conversations = self._held.get(origin or "")
        if conversations is not None and not conversations.get(conversation_id):
            conversations.pop(conversation_id, None)
            if not conversations:
                self._held.pop(origin or "", None)
