"""Folded acks: the `message.delivered` and `message.read` frames that wait while earlier ones are carried out.

Each acknowledgement is a watermark, so many frames fold into the highest entry of each conversation: a busy reader
costs little. Every frame still gets its own answer if it has an id, and all frames together are charged. A slot of the
limit pays for ACKS_PER_SLOT of them: the connection carries later frames out at once for as long as one lasts. A post
to many is acknowledged by many in the same moment, so connections that must pay ask the limiter together.

It is read by many in the same moment too, so read marks of a moment are carried out together. The more come in a
conversation, the longer the next ones gather: a busy reader sends several meanwhile, and the highest counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar

from tidings.bounds import ACKS_MAX, ACKS_PER_SLOT
from tidings.messaging.unread.bounds import READS_PAUSE_S, READS_PAUSE_S_MAX
from tidings.messaging.unread.read_together import Reading
from tidings.model import ReadState
from tidings.protocol.client_frames import ClientFrame, Delivered, Read
from tidings.routing.hub import Connection

CONVERSATIONS_MAX = ACKS_MAX * 10  # in one batch, or little more; later frames are in the next


class Batch(NamedTuple):
    """Acknowledgements to carry out together: the highest entry of each conversation, and the frames to answer."""

    seqs: dict[str, int]
    frame_ids: list[int | None]

    @property
    def cost(self) -> int:
        """The slots of `read` that the frames cost: each frame was parsed, and each conversation is looked up."""
        return -(-(len(self.frame_ids) + len(self.seqs)) // ACKS_PER_SLOT)

    @property
    def left_over(self) -> int:
        """The acknowledgements that these slots pay for and that are still to come."""
        return self.cost * ACKS_PER_SLOT - len(self.frame_ids) - len(self.seqs)


class FoldedAcks:
    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames: deque[Delivered] = deque()  # as many as requests of a socket may be under way

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: Delivered) -> None:
        self._frames.append(frame)

    def take(self) -> Batch:
        """Fold the frames that wait, as far as one batch goes."""
        batch = Batch({}, [])
        while self._frames and len(batch.seqs) < CONVERSATIONS_MAX:
            frame = self._frames.popleft()
            batch.frame_ids.append(frame.id)
            for conversation_id, seq_no in frame.acks.items():
                batch.seqs[conversation_id] = max(seq_no, batch.seqs.get(conversation_id, 0))
        return batch


class Acknowledging(Connection, Protocol):
    """A connection whose client acknowledges messages."""

    def take_acks(self) -> Batch:
        """Take the acknowledgements that wait to be charged, as far as one batch goes."""
        ...

    def acks_charged(self, paid: int) -> None:
        """Go on after the acknowledgements that were taken. `paid`: how many more are paid for."""
        ...

    def finish(self, *answers: bytes | None) -> None:
        """Write the answers of frames that were under way."""
        ...


C = TypeVar("C", bound=Connection)
ServerOf = Callable[[str], str]  # user_id -> the server that has the user's budget
Run = Callable[[Coroutine[Any, Any, None], str], object]


def by_server(connections: Iterable[C], server_of: ServerOf) -> Iterable[list[C]]:
    """Those whose budgets are on one server, together. A server that does not answer holds up nobody else."""
    found: dict[str, list[C]] = {}
    for connection in connections:
        found.setdefault(server_of(connection.user_id), []).append(connection)
    return found.values()


class AckCharges:
    """The connections whose acknowledgements wait to be charged. Those of one turn of the loop are charged together."""

    def __init__(
        self, deliver: Callable[[Sequence[Acknowledging]], Coroutine[Any, Any, None]], run: Run, server_of: ServerOf
    ) -> None:
        self._deliver = deliver
        self._run = run
        self._server_of = server_of
        self._waiting: list[Acknowledging] = []

    def join(self, connection: Acknowledging) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._charge)
        self._waiting.append(connection)

    def _charge(self) -> None:
        waiting, self._waiting = self._waiting, []
        for some in by_server(waiting, self._server_of):
            self._run(self._deliver(some), "acks")


def is_plain_read(frame: ClientFrame) -> TypeGuard[Read]:
    """Whether the frame marks a conversation as read up to a number: many of these are carried out together."""
    if type(frame) is not Read or frame.up_to_seq is None:
        return False
    return frame.thread_seq is None and frame.up_to_ts is None and frame.seqs is None


Reads = list[Read]  # plain reads of one conversation, one after another
Marks = deque[ClientFrame | Reads]  # that wait in a connection, in their order


def add_mark(marks: Marks | None, frame: ClientFrame) -> Marks:
    """Queue a mark. It joins the plain reads before it that are of the same conversation."""
    marks = deque() if marks is None else marks
    if not is_plain_read(frame):
        marks.append(frame)
    elif marks and isinstance(last := marks[-1], list) and last[0].conversation_id == frame.conversation_id:
        last.append(frame)
    else:
        marks.append([frame])
    return marks


def take_reads(marks: Marks) -> list[Reads]:
    """Take the plain reads from the beginning."""
    taken: list[Reads] = []
    while marks and isinstance(first := marks[0], list):
        taken.append(first)
        marks.popleft()
    return taken


class Marking(Connection, Protocol):
    """A connection whose client marks conversations as read."""

    def take_reads(self) -> list[Reads]:
        """Take the read marks that come next, those of each conversation together."""
        ...

    def finish_reads(self, answers: Sequence[bytes | None]) -> None:
        """Write the answers of the marks that were taken, and go on with what waits behind them."""
        ...


Outcome = ReadState | Exception | None
AnswerReads = Callable[[Marking, list[tuple[Reads, Outcome]]], None]


class ReadMoment:
    """The read marks that are carried out together: as far as the budgets go, folded, and what each came to.

    Each connection is answered once, in the order of its frames: as soon as its own marks have an outcome.
    """

    def __init__(self, connections: Sequence[Marking], answer: AnswerReads) -> None:
        self._answer = answer
        self._unanswered = {connection: connection.take_reads() for connection in connections}
        self._readings: dict[tuple[str, str], Reading] = {}  # by conversation and member
        self._marks: dict[
            Marking, list[tuple[Reads, Reading | Exception | None]]
        ] = {}  # with a refusal where it is one
        self._open: dict[Marking, set[Reading]] = {}  # the marks of a connection without an outcome
        self._readers: dict[Reading, list[Marking]] = {}  # the connections that wait for a mark

    @property
    def wanted(self) -> list[tuple[str, int]]:
        """The users, and how many marks of each are to be paid."""
        return [(connection.user_id, sum(map(len, reads))) for connection, reads in self._unanswered.items()]

    def admit(self, granted: Sequence[tuple[int, Exception | None]]) -> list[Reading]:
        """Fold the marks that pass: so many of each connection, and the refusal of the others."""
        for (connection, taken), (count, refusal) in zip(list(self._unanswered.items()), granted, strict=True):
            marks = self._marks[connection] = list[tuple[Reads, Reading | Exception | None]]()
            for passed, over in _divided(taken, count):
                if passed:
                    marks.append((passed, self._fold(connection, passed)))
                if over:
                    marks.append((over, refusal))
            self._open[connection] = {one for _, one in marks if isinstance(one, Reading)}
            for reading in self._open[connection]:
                self._readers.setdefault(reading, []).append(connection)
            self._finish(connection)
        return list(self._readings.values())

    def ended(self, readings: Sequence[Reading]) -> None:
        """These have their outcome: answer the connections that wait for nothing else."""
        for reading in readings:
            for connection in self._readers.pop(reading, ()):
                self._open[connection].discard(reading)
                self._finish(connection)

    def fail(self, error: Exception) -> None:
        """All that are not answered yet came to this error."""
        self._readers.clear()
        unanswered, self._unanswered = self._unanswered, {}
        for connection, taken in unanswered.items():
            self._answer(connection, [(reads, error) for reads in taken])

    def _finish(self, connection: Marking) -> None:
        if not self._open[connection]:
            del self._unanswered[connection]
            marks = self._marks[connection]
            self._answer(
                connection, [(reads, one.outcome if isinstance(one, Reading) else one) for reads, one in marks]
            )

    def _fold(self, connection: Connection, reads: Reads) -> Reading:
        """Of several marks of one member the highest counts, and all devices get the event of it."""
        conversation_id, origin = reads[0].conversation_id, connection.connection_id
        key, up_to_seq = (conversation_id, connection.user_id), max([read.up_to_seq or 0 for read in reads])
        one = self._readings.get(key)
        if one is None:
            one = self._readings[key] = Reading(connection.user_id, conversation_id, up_to_seq, origin)
        one.up_to_seq = max(one.up_to_seq, up_to_seq)
        if one.origin != origin:
            one.origin = None
        return one


def _divided(taken: Iterable[Reads], count: int) -> Iterator[tuple[Reads, Reads]]:
    """Return the first `count` reads of all, and those over them, for each conversation."""
    for reads in taken:
        yield reads[:count], reads[count:]
        count = max(0, count - len(reads))


class Gathering:
    """The connections that wait for the next moment of one conversation, and how busy its last moments were."""

    __slots__ = ("connections", "level")

    def __init__(self, level: float = 0.0) -> None:
        self.level = level
        self.connections: list[Marking] = []

    @property
    def pause_s(self) -> float:
        return min(self.level * READS_PAUSE_S, READS_PAUSE_S_MAX)

    def after(self) -> Gathering:
        """Begin to gather for the moment after this one."""
        return Gathering(self.level / 2 + len(self.connections))


class ReadMoments:
    """The connections whose read marks are carried out at the next moment of a conversation.

    The first mark never waits. Then the conversation has a pause, and marks that come meanwhile are carried out
    together at its end. The more came in the moments before, the longer it is: one reader alone hardly waits, and the
    marks of a crowd gather also where they come one by one. Conversations whose moment is in the same turn go on
    together.
    """

    def __init__(
        self, read: Callable[[Sequence[Marking]], Coroutine[Any, Any, None]], run: Run, server_of: ServerOf
    ) -> None:
        self._read = read
        self._run = run
        self._server_of = server_of
        self._waiting: dict[str, Gathering] = {}  # by conversation; each has its time, or is due
        self._due: list[str] = []  # conversations whose moment is the next turn of the loop

    def join(self, connection: Marking, conversation_id: str) -> None:
        """Wait for the next moment of the conversation that the first mark of the connection names."""
        waiting = self._waiting.get(conversation_id)
        if waiting is None:
            waiting = self._waiting[conversation_id] = Gathering()
            self._fall_due(conversation_id)
        waiting.connections.append(connection)

    def _fall_due(self, conversation_id: str) -> None:
        if not self._due:
            asyncio.get_running_loop().call_soon(self._begin)
        self._due.append(conversation_id)

    def _begin(self) -> None:
        due, self._due = self._due, []
        together: list[Marking] = []
        for conversation_id in due:
            waiting = self._waiting.pop(conversation_id)
            if waiting.connections:
                together += waiting.connections
                after = self._waiting[conversation_id] = waiting.after()
                asyncio.get_running_loop().call_later(after.pause_s, self._fall_due, conversation_id)
        for some in by_server(together, self._server_of):
            self._run(self._read(some), "reads")
