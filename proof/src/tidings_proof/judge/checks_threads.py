"""The check of threads, I26: each follower's unread replies are those of the log, and the list shows exactly these."""

from __future__ import annotations

from tidings_proof.judge.checker import Check, Truth
from tidings_proof.judge.checks_state import UNREAD_CAP
from tidings_proof.judge.dump import Followed
from tidings_proof.judge.history import Record

Act = tuple[str, str, int]  # user, conversation, root


class Threads(Check):
    id = "I26"
    about = "a follower's unread replies are those of the log, and the list of unread threads has exactly these rows"
    wants = frozenset(("threads", "follow"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._followed: set[Act] = set()  # asked for, answered, and never taken back

    def take(self, record: Record) -> None:
        if record.f == "follow":
            root, is_on = record.value
            act = (record.user_id, record.conversation_id, root)
            if is_on and record.type == "ok":
                self._followed.add(act)
            elif not is_on and record.type != "fail":
                self._followed.discard(act)
            return
        self.looked += 1
        counts, total = record.value
        if len(counts) != (total or 0) or 0 in counts:
            self.blame(
                f"{record.user_id} was shown the unread threads {counts}, and {total} as their number", record.at_s
            )

    def end(self) -> None:
        for user_id, shown in self.truth.dump.shown.items():
            follows = self.truth.dump.follows.get(user_id)
            if follows is None:
                continue
            self.looked += 1
            counts = {one.thread: min(self._unread(user_id, one), UNREAD_CAP) for one in follows}
            unread = {thread: count for thread, count in counts.items() if count}
            if shown.threads != unread or shown.unread_threads != len(unread):
                self.blame(
                    f"{user_id} is shown the unread threads {shown.threads}, and {shown.unread_threads} in the totals; "
                    f"by the log they are {unread}"
                )
        if self.truth.dump.is_raw:
            self._compare_acts()

    def _compare_acts(self) -> None:
        for user_id, id_, root in self._followed:
            self.looked += 1
            if all(one.thread != (id_, root) for one in self.truth.dump.follows.get(user_id, [])):
                self.blame(f"{user_id} asked to follow {id_} {root}, and does not")

    def _unread(self, user_id: str, follow: Followed) -> int:
        id_, root = follow.thread
        log, blocked = self.truth.dump.logs.get(id_), self.truth.dump.blocks.get(user_id, frozenset())
        return sum(
            entry.seq_no > follow.cursor_seq
            and entry.kind == "message"
            and entry.thread_seq == root
            and not entry.is_deleted
            and entry.sender_id != user_id
            and entry.sender_id not in blocked
            and not any(low <= entry.seq_no <= high for low, high in follow.ranges)
            for entry in (log.entries if log is not None else ())
        )


CHECKS: tuple[type[Check], ...] = (Threads,)
