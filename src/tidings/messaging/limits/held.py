"""Held sends: a refused send must not be overtaken by a later one of the same device in the same conversation.

A send that is refused for now starts a hold for its connection and conversation. Later sends join the hold in their
order and are answered `held`. Only the first send of a hold may pass. A hold ends when it is empty: its sends were
stored or given up, or the connection is gone. REST sends have no connection and are never held.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from tidings.bounds import HOLD_CONVERSATIONS_MAX, HOLD_MESSAGES_MAX


class Holds:
    def __init__(self) -> None:
        # origin -> conversation -> message_id -> its place in the order of arrival, ascending. While it is empty, as a
        # rule, a send asks nothing of this class.
        self.held: dict[str, dict[str, dict[str, int]]] = {}

    def is_held(self, origin: str | None, conversation_id: str, message_id: str, place: int) -> bool:
        """Say whether this send may not pass now. Then it joins the hold."""
        hold = self._of(origin, conversation_id)
        if not hold or next(iter(hold)) == message_id:
            return False
        self.join(origin, conversation_id, message_id, place)
        return True

    def let_pass(self, origin: str | None, conversation_id: str, message_id: str) -> int | None:
        """Let the first send of a hold go on. Returns the place it had: `refuse` puts it back there."""
        hold = self._of(origin, conversation_id)
        if not hold or next(iter(hold)) != message_id:
            return None
        place = hold.pop(message_id)
        self._tidy(origin, conversation_id)
        return place

    def join(self, origin: str | None, conversation_id: str, message_id: str, place: int) -> None:
        """Hold a send that was refused before any stage."""
        if len(self._of(origin, conversation_id) or ()) < HOLD_MESSAGES_MAX:
            self.refuse(origin, conversation_id, {message_id: place})

    def refuse(self, origin: str | None, conversation_id: str, places: Mapping[str, int]) -> None:
        """Hold these refused sends. A send that came twice has the place of the first time."""
        if origin is None or not places:
            return
        conversations = self.held.setdefault(origin, {})
        hold = conversations.setdefault(conversation_id, {})
        last = hold[next(reversed(hold))] if hold else 0
        for message_id, place in places.items():
            hold[message_id] = min(place, hold.get(message_id, place))
        if min(places.values()) < last or len(places) > 1:  # else it came last, as a rule
            conversations[conversation_id] = dict(sorted(hold.items(), key=itemgetter(1)))

    def is_overfull(self, origin: str) -> bool:
        """Say whether the connection has holds in too many conversations: a client may name any number of them."""
        return len(self.held.get(origin, ())) > HOLD_CONVERSATIONS_MAX

    def abandon(self, origin: str | None, conversation_id: str, message_id: str) -> None:
        hold = self._of(origin, conversation_id)
        if hold is not None:
            hold.pop(message_id, None)
            self._tidy(origin, conversation_id)

    def forget(self, origin: str) -> None:
        """The connection is gone: its holds end."""
        self.held.pop(origin, None)

    def _of(self, origin: str | None, conversation_id: str) -> dict[str, int] | None:
        if origin is None:
            return None
        conversations = self.held.get(origin)
        return conversations.get(conversation_id) if conversations else None

    def _tidy(self, origin: str | None, conversation_id: str) -> None:
        conversations = self.held.get(origin or "")
        if conversations is not None and not conversations.get(conversation_id):
            conversations.pop(conversation_id, None)
            if not conversations:
                self.held.pop(origin or "", None)
