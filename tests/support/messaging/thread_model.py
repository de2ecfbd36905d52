"""What followers of threads should see, as a plain model beside that of conversations (reference_model.py)."""

from __future__ import annotations

import dataclasses

from tests.support.messaging.reference_model import Ledger, Room, Said
from tidings.model import Entry, ReadState, Totals

Place = tuple[str, int]  # conversation, root


@dataclasses.dataclass
class Following:
    """One follower of one thread."""

    cursor: int
    read: set[int] = dataclasses.field(default_factory=set)

    def fold(self) -> None:
        self.read = {seq for seq in self.read if seq > self.cursor}
        while self.cursor + 1 in self.read:
            self.cursor += 1
            self.read.discard(self.cursor)


class ThreadLedger(Ledger):
    def __init__(self, *, cap: int, is_delivered_seen: bool) -> None:
        super().__init__(cap=cap, is_delivered_seen=is_delivered_seen)
        self.followers: dict[Place, dict[str, Following]] = {}
        self.reactions: dict[Place, dict[str, set[str]]] = {}  # message -> key -> users
        self.pins: set[Place] = set()

    # --- what happens -------------------------------------------------------------------------------

    def said(self, entry: Entry) -> None:
        room = self.rooms[entry.conversation_id]
        is_new = entry.seq_no == room.head + 1
        super().said(entry)
        if is_new and entry.kind == "message" and entry.thread_seq is not None:
            self._replied(room, (entry.conversation_id, entry.thread_seq), entry)

    def _replied(self, room: Room, place: Place, entry: Entry) -> None:
        """The author, everybody named, and with the first reply the author of the root follow from now on."""
        followers = self.followers.setdefault(place, {})
        assert entry.content is not None
        named = [entry.sender_id, *entry.content.mentions]
        author = room.log[place[1] - 1].sender_id if len(self.replies(place)) == 1 else None
        for user_id in (*named, author):
            if user_id is not None and user_id in room.seats and user_id not in followers:
                below = place[1] if user_id == author else entry.seq_no - 1
                followers[user_id] = Following(entry.seq_no if user_id == entry.sender_id else below)

    def react(self, place: Place, user_id: str, key: str, *, is_on: bool) -> None:
        users = self.reactions.setdefault(place, {}).setdefault(key, set())
        users.add(user_id) if is_on else users.discard(user_id)

    def beside(self, place: Place, user_id: str) -> tuple[dict[str, tuple[int, bool]], bool]:
        """What is shown beside a message: count and "mine" of each reaction, and whether it is pinned."""
        found = self.reactions.get(place, {})
        return {key: (len(users), user_id in users) for key, users in found.items() if users}, place in self.pins

    def left(self, conversation_id: str, user_id: str) -> None:
        super().left(conversation_id, user_id)
        for (id_, _), followers in self.followers.items():
            if id_ == conversation_id:
                followers.pop(user_id, None)

    def follow(self, place: Place, user_id: str, *, is_on: bool) -> None:
        followers = self.followers.setdefault(place, {})
        if not is_on:
            followers.pop(user_id, None)
        elif user_id not in followers:
            followers[user_id] = Following(self.last_reply(place)[0])

    def read_replies(self, place: Place, user_id: str, seq_no: int) -> None:
        mine = self.followers[place][user_id]
        mine.cursor = max(mine.cursor, min(seq_no, self.rooms[place[0]].head))
        mine.fold()

    def read_single_replies(self, place: Place, user_id: str, seqs: list[int]) -> None:
        mine = self.followers[place][user_id]
        mine.read |= {seq for seq in seqs if 0 < seq <= self.rooms[place[0]].head}
        mine.fold()

    def unread_replies_from(self, place: Place, user_id: str, seq_no: int) -> None:
        mine = self.followers[place][user_id]
        mine.read = {seq for seq in mine.read if seq < seq_no}
        mine.cursor = min(mine.cursor, seq_no - 1)
        mine.fold()

    # --- what is seen -------------------------------------------------------------------------------

    def replies(self, place: Place) -> list[Said]:
        return [said for said in self.rooms[place[0]].log if said.kind == "message" and said.thread_seq == place[1]]

    def last_reply(self, place: Place) -> tuple[int, int]:
        """(seq_no, sent_ms) of the last reply that is not silent; the first one counts in any case."""
        found = [said for at, said in enumerate(self.replies(place)) if at == 0 or not said.is_silent]
        return max(((said.seq_no, said.sent_ms) for said in found), default=(0, 0))

    def unread_replies(self, place: Place, user_id: str) -> list[int]:
        mine, start = self.followers[place][user_id], self.rooms[place[0]].start(user_id)
        return [
            said.seq_no
            for said in self.replies(place)
            if said.seq_no > max(mine.cursor, start)
            and said.seq_no not in mine.read
            and said.sender_id != user_id
            and not said.is_deleted
            and not said.is_silent
            and (user_id, said.sender_id) not in self.blocks
        ]

    def followed(self, user_id: str) -> list[Place]:
        """The threads in the user's list, the latest reply first."""
        found = [place for place, followers in self.followers.items() if user_id in followers and self.replies(place)]
        return sorted(found, key=lambda place: (self.last_reply(place)[1], f"{place[0]}/{place[1]}"), reverse=True)

    def threads(self, user_id: str, *, is_unread: bool) -> list[tuple[str, int, int, int, int, int | None]]:
        """Conversation, root, replies, last seq, unread and first unread of each row of the list."""
        rows = []
        for place in self.followed(user_id):
            unread = self.unread_replies(place, user_id)
            count = sum(not said.is_deleted for said in self.replies(place))
            last, shown = self.last_reply(place)[0], min(len(unread), self.cap)
            rows.append((*place, count, last, shown, unread[0] if unread else None))
        return [row for row in rows if row[4] or not is_unread]

    def thread_state(self, place: Place, user_id: str) -> ReadState:
        unread, totals = self.unread_replies(place, user_id), self.totals(user_id)
        log = self.rooms[place[0]].log
        mentions = [seq for seq in unread[-self.cap :] if {user_id, "*"} & set(log[seq - 1].mentions)]
        return ReadState(
            conversation_id=place[0],
            read_seq=self.followers[place][user_id].cursor,
            unread_count=min(len(unread), self.cap),
            unread_capped=len(unread) > self.cap,
            first_unread_seq=unread[0] if unread else None,
            total_unread=totals.total_unread,
            mention_count=len(mentions),
            first_mention_seq=mentions[0] if mentions else None,
            total_mentions=totals.total_mentions,
            thread_seq=place[1],
            unread_threads=totals.unread_threads,
        )

    def totals(self, user_id: str) -> Totals:
        totals = super().totals(user_id)
        threads = sum(bool(self.unread_replies(place, user_id)) for place in self.followed(user_id))
        return Totals(totals.total_unread, totals.unread_conversations, totals.total_mentions, threads)
