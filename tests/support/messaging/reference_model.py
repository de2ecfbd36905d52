"""What members should see, as a plain model: lists and sets, no keyspace, no cursors in two places.

The tests do something to the real thing and to this, and compare.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tidings.model import ConversationKind, Entry, InboxPage, ReadState, Totals


@dataclasses.dataclass
class Said:
    """One entry of a log; only messages that are not silent count."""

    seq_no: int
    kind: str
    sender_id: str | None
    sent_ms: int
    text: str | None = None
    is_deleted: bool = False
    is_silent: bool = False
    mentions: tuple[str, ...] = ()
    thread_seq: int | None = None
    is_in_thread_only: bool = False


@dataclasses.dataclass
class Seat:
    """One membership."""

    joined_seq: int
    joined_ms: int
    is_hidden: bool = False
    cursor: int = 0
    read: set[int] = dataclasses.field(default_factory=set)
    delivered: int = 0
    is_muted: bool = False
    pinned_at: int = 0  # ms; 0: not pinned
    archived_seq: int | None = None  # the last message when it was archived

    def fold(self) -> None:
        self.read = {seq for seq in self.read if seq > self.cursor}
        while self.cursor + 1 in self.read:
            self.cursor += 1
            self.read.discard(self.cursor)


@dataclasses.dataclass
class Room:
    """One conversation."""

    kind: ConversationKind
    seats: dict[str, Seat]
    log: list[Said] = dataclasses.field(default_factory=list)
    delivered: dict[str, int] = dataclasses.field(default_factory=dict)  # outlives a membership

    @property
    def head(self) -> int:
        return len(self.log)

    @property
    def messages(self) -> list[Said]:
        """Those that count in the conversation."""
        counted = [said for said in self.log if said.kind == "message" and not said.is_silent]
        return [said for said in counted if not said.is_in_thread_only]

    @property
    def written(self) -> list[Said]:
        return [said for said in self.log if said.kind == "message"]

    def start(self, user_id: str) -> int:
        return self.seats[user_id].joined_seq if self.kind == "group" else 0


class Ledger:
    def __init__(self, *, cap: int, is_delivered_seen: bool) -> None:
        self.cap = cap
        self.is_delivered_seen = is_delivered_seen
        self.rooms: dict[str, Room] = {}
        self.blocks: set[tuple[str, str]] = set()  # (the user who blocked, the one who was blocked)

    # --- what happens -------------------------------------------------------------------------------

    def said(self, entry: Entry) -> None:
        """In any order; a repeated one changes nothing."""
        log = self.rooms[entry.conversation_id].log
        assert entry.seq_no <= len(log) + 1, "a number was skipped"
        if entry.seq_no == len(log) + 1:
            said = Said(entry.seq_no, entry.kind, entry.sender_id, entry.sent_ms, entry.text)
            said.is_silent = entry.content is not None and entry.content.silent
            said.mentions = entry.mentions
            said.thread_seq = entry.thread_seq
            in_thread = entry.thread_seq is not None and entry.content is not None
            said.is_in_thread_only = in_thread and not (entry.content and entry.content.also_here)
            log.append(said)
            if entry.kind == "delete":
                target = log[(entry.target_seq or 0) - 1]
                target.is_deleted, target.text = True, None
            elif entry.kind == "edit":
                log[(entry.target_seq or 0) - 1].text = entry.text

    def joined(self, conversation_id: str, user_id: str, entry: Entry) -> None:
        room = self.rooms[conversation_id]
        room.seats[user_id] = Seat(
            entry.seq_no, entry.sent_ms, cursor=entry.seq_no, delivered=room.delivered.get(user_id, 0)
        )

    def left(self, conversation_id: str, user_id: str) -> None:
        del self.rooms[conversation_id].seats[user_id]

    def read_up_to(self, conversation_id: str, user_id: str, seq_no: int) -> None:
        seat, room = self.rooms[conversation_id].seats[user_id], self.rooms[conversation_id]
        up_to = min(seq_no, room.head)
        seat.cursor = max(seat.cursor, up_to)
        seat.fold()
        self.delivered(conversation_id, user_id, up_to)

    def read_up_to_ts(self, conversation_id: str, user_id: str, sent_ms: int) -> None:
        at = [said.seq_no for said in self.rooms[conversation_id].log if said.sent_ms <= sent_ms]
        self.read_up_to(conversation_id, user_id, max(at, default=0))

    def read_these(self, conversation_id: str, user_id: str, seqs: list[int]) -> None:
        seat, head = self.rooms[conversation_id].seats[user_id], self.rooms[conversation_id].head
        seat.read |= {seq for seq in seqs if 0 < seq <= head}
        seat.fold()

    def unread_from(self, conversation_id: str, user_id: str, seq_no: int) -> None:
        seat = self.rooms[conversation_id].seats[user_id]
        seat.read = {seq for seq in seat.read if seq < seq_no}
        seat.cursor = min(seat.cursor, seq_no - 1)
        seat.fold()

    def delivered(self, conversation_id: str, user_id: str, seq_no: int) -> None:
        room = self.rooms[conversation_id]
        mark = max(room.delivered.get(user_id, 0), min(seq_no, room.head))
        room.delivered[user_id] = room.seats[user_id].delivered = mark

    # --- what is seen -------------------------------------------------------------------------------

    def unread(self, conversation_id: str, user_id: str) -> list[int]:
        room, seat = self.rooms[conversation_id], self.rooms[conversation_id].seats[user_id]
        after = max(seat.cursor, room.start(user_id), seat.delivered if self.is_delivered_seen else 0)
        return [
            said.seq_no
            for said in room.messages
            if said.seq_no > after
            and said.seq_no not in seat.read
            and said.sender_id != user_id
            and not said.is_deleted
            and (user_id, said.sender_id) not in self.blocks
        ]

    def is_refused(self, conversation_id: str, user_id: str) -> bool:
        """Whether the other side of a direct conversation has blocked the user."""
        room = self.rooms[conversation_id]
        return room.kind == "direct" and any((other_id, user_id) in self.blocks for other_id in room.seats)

    def mentions(self, conversation_id: str, user_id: str) -> list[int]:
        """Those of the unread that are shown and name the user, or all."""
        log = self.rooms[conversation_id].log
        kept = self.unread(conversation_id, user_id)[-self.cap :]
        return [seq_no for seq_no in kept if {user_id, "*"} & set(log[seq_no - 1].mentions)]

    def flag(self, conversation_id: str, user_id: str, name: str, *, is_on: bool, pinned_ms: int) -> None:
        """Pin, mute or archive, or end it. The time of a pin is the server's."""
        seat = self.rooms[conversation_id].seats[user_id]
        if not self.is_archived(conversation_id, user_id):
            seat.archived_seq = None  # it is back, and stays
        if name == "muted":
            seat.is_muted = is_on
        elif name == "archived":
            seat.archived_seq = self.last_seq(conversation_id) if is_on else None
        else:
            seat.pinned_at = pinned_ms

    def last_seq(self, conversation_id: str) -> int:
        return max((said.seq_no for said in self.rooms[conversation_id].messages), default=0)

    def is_archived(self, conversation_id: str, user_id: str) -> bool:
        seat = self.rooms[conversation_id].seats[user_id]
        if seat.archived_seq is None:
            return False
        return seat.is_muted or self.last_seq(conversation_id) <= seat.archived_seq

    def listed(self, user_id: str, name: str | None = None) -> list[str]:
        """The inbox as it is shown, or one filter of it."""
        ids = self.shown(user_id)
        seats = {id_: self.rooms[id_].seats[user_id] for id_ in ids}
        archived = [id_ for id_ in ids if self.is_archived(id_, user_id)]
        pinned = [id_ for id_ in ids if seats[id_].pinned_at and id_ not in archived]
        pinned.sort(reverse=True)
        pinned.sort(key=lambda id_: seats[id_].pinned_at)
        if name is None:
            return pinned + [id_ for id_ in ids if id_ not in archived and id_ not in pinned]
        filters = {
            "unread": [id_ for id_ in ids if self.unread(id_, user_id)],
            "mentions": [id_ for id_ in ids if self.mentions(id_, user_id)],
            "muted": [id_ for id_ in ids if seats[id_].is_muted],
            "pinned": pinned,
            "archived": archived,
        }
        return filters[name]

    def shown(self, user_id: str) -> list[str]:
        """Conversations in this user's inbox, newest first."""
        places = {
            id_: (self.score(id_, user_id), id_)
            for id_, room in self.rooms.items()
            if user_id in room.seats and (room.messages or not room.seats[user_id].is_hidden)
        }
        return sorted(places, key=places.__getitem__, reverse=True)

    def score(self, conversation_id: str, user_id: str) -> int:
        room = self.rooms[conversation_id]
        return max([room.seats[user_id].joined_ms, *(said.sent_ms for said in room.messages)])

    def state(self, conversation_id: str, user_id: str) -> ReadState:
        unread, mentions = self.unread(conversation_id, user_id), self.mentions(conversation_id, user_id)
        return ReadState(
            conversation_id=conversation_id,
            read_seq=self.rooms[conversation_id].seats[user_id].cursor,
            unread_count=min(len(unread), self.cap),
            unread_capped=len(unread) > self.cap,
            first_unread_seq=unread[0] if unread else None,
            total_unread=self.totals(user_id).total_unread,
            mention_count=len(mentions),
            first_mention_seq=mentions[0] if mentions else None,
            total_mentions=self.totals(user_id).total_mentions,
        )

    def totals(self, user_id: str) -> Totals:
        counts = [min(len(self.unread(id_, user_id)), self.cap) for id_ in self.shown(user_id)]
        mentions = sum(len(self.mentions(id_, user_id)) for id_ in self.shown(user_id))
        seats = [self.rooms[id_].seats[user_id] for id_ in self.shown(user_id)]
        quiet = sum(count for count, seat in zip(counts, seats, strict=True) if seat.is_muted)
        return Totals(sum(counts) - quiet, sum(count > 0 for count in counts), mentions)

    def page(self, user_id: str) -> list[tuple[str, Any]]:
        return [(id_, self.state(id_, user_id)) for id_ in self.listed(user_id)]

    def preview(self, conversation_id: str, user_id: str) -> str | None:
        """Of the last message, if the member may see it."""
        room = self.rooms[conversation_id]
        last = room.messages[-1] if room.messages else None
        return last.text if last is not None and last.seq_no > room.start(user_id) else None


def seen(page: InboxPage) -> list[tuple[str, Any]]:
    """A real page in the model's form."""
    return [(item.row.conversation_id, item.state) for item in page.items]
