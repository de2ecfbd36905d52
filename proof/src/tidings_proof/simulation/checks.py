"""Checks of a world at peace: promises 1-4 and the cold tier, worked out from the raw rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.errors import Problem, StoreError
from tidings.model import Content, preview_of
from tidings.stores.tables.stored_content import is_mentioned
from tidings_proof.simulation.beside import check_beside, check_threads
from tidings_proof.simulation.finding import check_finding
from tidings_proof.simulation.oddities import STRANGER

if TYPE_CHECKING:
    from tidings_proof.simulation.nodes import SimNode
    from tidings_proof.simulation.world import World

_COLUMNS = (
    "seq_no, kind, sent_ms, message_id, sender_id, is_deleted, target_seq, edit_seq, content, s3_ref, is_uncounted, "
    "mentions"
)


class Line(msgspec.Struct, frozen=True):
    """One row of the log."""

    seq_no: int
    kind: str
    sent_ms: int
    message_id: str | None
    sender_id: str | None
    is_deleted: int
    target_seq: int | None
    edit_seq: int | None
    content: bytes | None
    s3_ref: str | None
    is_uncounted: int
    mentions: str | None


class Place(msgspec.Struct, frozen=True, order=True):
    """A conversation as an inbox must show it."""

    is_pinned: bool
    score: int
    conversation_id: str
    unread: list[int]
    mentions: int
    preview: str | None
    is_muted: bool
    is_archived: bool


async def check(world: World) -> None:
    _check_open_work(world)
    logs = {id_: _log(world, id_) for id_ in world.conversation_ids}
    unread = [id_ for id_, log in logs.items() if _is_open_among_voids(log)]
    node = world.some_node()
    assert node is not None
    try:
        for id_ in unread:
            await _read_end(world, node, id_, logs[id_])
            logs[id_] = _log(world, id_)
        for id_, log in logs.items():
            _check_log(world, id_, log)
            _check_sends(world, id_, log)
            _check_devices(world, id_, log)
            _check_receipts(world, id_, log)
        await node.ask(_check_answers(world, node, logs))
    except (Problem, StoreError) as error:
        world.note(f"in peace a request fails: {error!r}")


def _check_open_work(world: World) -> None:
    """Numbers that a node knows to be open are closed by that node, whether somebody reads there or not."""
    for node in world.live_nodes():
        for id_, undecided in node.core.open_work.undecided.items():
            world.note(f"{node.node_id} has not decided {undecided.first} to {undecided.last} of {id_}")


def _is_open_among_voids(log: list[Line]) -> bool:
    """Whether numbers are open above the last entry that went out, and nowhere else.

    A number is lost with the answer that hands it out, and no node knows of it. A void above it is routed to nobody.
    So no reader has met the gap yet.
    """
    end, numbers = _end(log), [line.seq_no for line in log]
    return numbers[:end] == list(range(1, end + 1)) and numbers != list(range(1, len(log) + 1))


async def _read_end(world: World, node: SimNode, conversation_id: str, log: list[Line]) -> None:
    """Read above the last entry that went out, as the next client does. Such a read closes every gap."""
    end, top = _end(log), log[-1].seq_no
    users = sorted({device.user_id for device in world.devices})
    reader = next((user_id for user_id in users if world.is_member(user_id, conversation_id)), None)
    if reader is None:
        return
    page = await node.ask(node.core.history.page(reader, conversation_id, after_seq=end, limit=100))
    found = [(entry.seq_no, entry.kind) for entry in reversed(page.entries)]
    if found != [(seq_no, "void") for seq_no in range(end + 1, top + 1)]:
        world.note(f"{reader} reads {found} above {end} of {conversation_id}, which goes up to {top}")


def _log(world: World, conversation_id: str) -> list[Line]:
    rows = world.rows(f"SELECT {_COLUMNS} FROM messages WHERE conversation_id = ? ORDER BY seq_no", conversation_id)
    return [Line(*row) for row in rows]


def _check_log(world: World, conversation_id: str, log: list[Line]) -> None:
    """Dense from 1 to the head, times that do not go back, each id once."""
    numbers = [line.seq_no for line in log]
    if numbers != list(range(1, len(log) + 1)):
        world.note(f"{conversation_id} has the numbers {numbers}")
    if not _is_growing(log) and not world.plan.losses:  # but for what is under way when a counter is lost
        world.note(f"{conversation_id}: times go back")
    head = world.rows("SELECT head FROM conversation_heads WHERE conversation_id = ?", conversation_id)[0][0]
    if head != len(log):
        world.note(f"{conversation_id}: the head is {head}, the log ends at {len(log)}")
    ids = [(line.sender_id, line.message_id) for line in log if line.message_id is not None]
    if len(ids) != len(set(ids)):
        world.note(f"{conversation_id}: an id is stored twice")


def _is_growing(log: list[Line]) -> bool:
    real = [line for line in log if line.kind != "void"]  # the time of a void is made up by whoever closed the slot
    return all(earlier.sent_ms <= later.sent_ms for earlier, later in pairwise(real))


def _check_sends(world: World, conversation_id: str, log: list[Line]) -> None:
    by_seq = {line.seq_no: line for line in log}
    acked = []
    for device in world.devices:
        before = 0
        for said in [one for one in device.said if one.conversation_id == conversation_id and one.seq_no is not None]:
            assert said.seq_no is not None and said.acked is not None
            line = by_seq.get(said.seq_no)
            if line is None or (line.sender_id, line.message_id) != (device.user_id, said.message_id):
                world.note(f"{said.message_id} was acknowledged as {said.seq_no} and is not there")
            if said.seq_no <= before:
                world.note(f"{device.name}: {said.message_id} came before what was sent earlier")
            before = max(before, said.seq_no)
            acked.append((said.began, said.acked, said.seq_no, said.message_id))
    for began, _, seq_no, message_id in acked:
        for _, ended, other_seq, other_id in acked:
            if ended < began and other_seq > seq_no:
                world.note(f"{message_id} was sent after {other_id} was acknowledged, and is before it")


def _memberships(world: World, conversation_id: str, user_id: str, log: list[Line]) -> Iterator[tuple[int, int]]:
    """(after, up to) of each time that the user was a member, as the log tells."""
    began = world.first_members[conversation_id]
    start: int | None = 0 if user_id in began else None
    for line in log:
        member = msgspec.json.decode(line.content or b"{}").get("member") if line.kind == "member" else None
        if member and user_id in member["user_ids"]:
            if member["action"] == "added":
                start = line.seq_no
            elif member["action"] in ("removed", "left") and start is not None:
                yield start, line.seq_no
                start = None
    if start is not None:
        yield start, len(log)


def _check_devices(world: World, conversation_id: str, log: list[Line]) -> None:
    """Nobody has what is not theirs; who is there has all of it."""
    history = world.rows("SELECT history FROM conversation_heads WHERE conversation_id = ?", conversation_id)[0][0]
    for device in world.devices:
        spans = list(_memberships(world, conversation_id, device.user_id, log))
        got = device.got.get(conversation_id, {})
        for seq_no, entry in got.items():
            is_within = any(seq_no <= up_to and (history == "all" or after < seq_no) for after, up_to in spans)
            # A send that was numbered before a removal may be finished under that number after a return.
            if not is_within and entry.sender_id != device.user_id:
                world.note(f"{device.name} has {conversation_id} {seq_no}, beyond its membership {spans}")
        if spans and spans[-1][1] == len(log) and world.is_member(device.user_id, conversation_id):
            missing = set(range(spans[-1][0] + 1, _end(log) + 1)) - got.keys()
            if missing:
                world.note(f"{device.name} never got {sorted(missing)} of {conversation_id}")
        wrong = [seq for seq, entry in got.items() if seq <= len(log) and entry.message_id != log[seq - 1].message_id]
        if wrong:
            world.note(f"{device.name} has other entries at {wrong} of {conversation_id}")


def _check_receipts(world: World, conversation_id: str, log: list[Line]) -> None:
    """A receipt that was answered is in the tables. Those of members who left or came back are left out."""
    marks = "SELECT user_id, delivered_seq FROM message_status WHERE conversation_id = ?"
    written = dict(world.rows(marks, conversation_id))
    for device in world.devices:
        acked = device.acked.get(conversation_id, 0)
        is_steady = list(_memberships(world, conversation_id, device.user_id, log)) == [(0, len(log))]
        stored = written.get(device.user_id, 0)
        if stored < acked and is_steady and world.is_member(device.user_id, conversation_id):
            world.note(f"{device.name} was told that {conversation_id} {acked} is delivered, the table has {stored}")


def _end(log: list[Line]) -> int:
    """Voids at the end reach a device with the next entry, or with a resume."""
    return max((line.seq_no for line in log if line.kind != "void"), default=0)


# --- what a node answers ----------------------------------------------------------------------------


async def _check_answers(world: World, node: SimNode, logs: dict[str, list[Line]]) -> None:
    for id_, log in logs.items():
        if any(line.sender_id == STRANGER for line in log):
            world.note(f"{id_} has a message of a stranger")
    report = await node.core.verify.run(None, repair=False)
    for wrong in report.wrong:
        world.note(f"verify: {wrong}")
    texts = {id_: _texts(world, log) for id_, log in logs.items()}
    for user_id in sorted({device.user_id for device in world.devices}):
        await _check_inbox(world, node, user_id, logs, texts)
    for id_, log in logs.items():
        await _check_texts(world, node, id_, log, texts[id_])


def _texts(world: World, log: list[Line]) -> dict[int, str | None]:
    """Return what each message says now, worked out from the requests."""
    said = {one.message_id: one.text for device in world.devices for one in device.said} | world.texts
    found: dict[int, str | None] = {}
    for line in log:
        if line.kind == "message":
            found[line.seq_no] = said[line.message_id or ""]
        elif line.kind == "edit" and found.get(line.target_seq or 0) is not None:
            found[line.target_seq or 0] = said[line.message_id or ""]
        elif line.kind == "delete":
            found[line.target_seq or 0] = None
    return found


async def _check_inbox(
    world: World, node: SimNode, user_id: str, logs: dict[str, list[Line]], texts: dict[str, dict[int, str | None]]
) -> None:
    cap, policy = world.unread
    places = sorted(_inbox(world, user_id, logs, texts), reverse=True)
    expected = [place for place in places if not place.is_archived]
    page = await node.core.inbox.page(user_id, limit=50, cursor=None)
    found = [
        (item.row.conversation_id, item.state.unread_count, item.state.first_unread_seq, item.row.last_message_preview)
        for item in page.items
    ]
    wanted = [
        (one.conversation_id, min(len(one.unread), cap), one.unread[0] if one.unread else None, one.preview)
        for one in expected
    ]
    if policy != "until_read":
        return  # what was delivered counts no more: `verify` knows
    if any(len(one.unread) > cap for one in expected):
        found = [(id_, count, None, preview) for id_, count, _, preview in found]  # which is the first is not kept
        wanted = [(id_, count, None, preview) for id_, count, _, preview in wanted]
    if not all(map(_is_growing, logs.values())) or any(one.is_pinned for one in expected):
        # The order of times that go back depends on who built the index; that of pins on when they were set.
        found, wanted = sorted(found, key=str), sorted(wanted, key=str)
    if found != wanted:
        world.note(f"the inbox of {user_id} shows {found}, not {wanted}")
    total = sum(min(len(one.unread), cap) for one in places if not one.is_muted)
    totals = (page.totals.total_unread, page.totals.total_mentions)
    if totals != (total, sum(one.mentions for one in places)):
        world.note(f"the badge of {user_id} shows {totals}, not {total} and {[one.mentions for one in places]}")


def _inbox(
    world: World, user_id: str, logs: dict[str, list[Line]], texts: dict[str, dict[int, str | None]]
) -> Iterator[Place]:
    """The conversations that the user should see."""
    for id_, log in logs.items():
        found = world.rows(
            "SELECT c.joined_seq, c.joined_ms, c.is_hidden, h.history, c.pinned, c.muted, c.archived, c.archived_seq "
            "FROM conversations AS c JOIN conversation_heads AS h USING (conversation_id) "
            "WHERE c.user_id = ? AND c.conversation_id = ?",
            user_id,
            id_,
        )
        messages = [line for line in log if line.kind == "message" and not line.is_uncounted]
        if found and (messages or not found[0][2]):
            joined_seq, joined_ms, _, history, is_pinned, is_muted, is_archived, archived_seq = found[0]
            score = max([joined_ms, 1, *(line.sent_ms for line in messages)])
            start = joined_seq if history == "joined" else 0
            last = messages[-1].seq_no if messages else 0
            preview = preview_of(Content(texts[id_][last])) if last > start else None
            unread = _unread(world, user_id, id_, messages, joined_seq, start)
            mentions = [line for line in messages if line.seq_no in unread and is_mentioned(user_id, line.mentions)]
            is_away = bool(is_archived) and (bool(is_muted) or last <= archived_seq)
            yield Place(bool(is_pinned), score, id_, unread, len(mentions), preview, bool(is_muted), is_away)


def _unread(
    world: World, user_id: str, conversation_id: str, messages: list[Line], joined_seq: int, start: int
) -> list[int]:
    status: list[Any] = world.rows(
        "SELECT cursor_seq, ranges, since_seq FROM message_status WHERE conversation_id = ? AND user_id = ?",
        conversation_id,
        user_id,
    )
    cursor, ranges = joined_seq, []
    if status and status[0][2] >= joined_seq:
        cursor, ranges = status[0][0], msgspec.json.decode(status[0][1] or b"[]")
    return [
        line.seq_no
        for line in messages
        if line.seq_no > max(cursor, start)
        and not line.is_deleted
        and line.sender_id != user_id
        and not any(low <= line.seq_no <= high for low, high in ranges)
    ]


async def _check_texts(
    world: World, node: SimNode, conversation_id: str, log: list[Line], texts: dict[int, str | None]
) -> None:
    """Through the cold tier, wherever a text is by now."""
    entries = await node.core.cold.messages.page(
        conversation_id, after=0, before=1 << 53, limit=10_000, newest_first=False
    )
    await check_beside(world, node, conversation_id, entries)
    await check_threads(world, node, conversation_id, entries)
    if world.index is not None:
        await check_finding(world, node, conversation_id, entries)
    for entry in entries:
        if entry.kind == "message" and (entry.text != texts[entry.seq_no] or entry.is_unavailable):
            world.note(f"{conversation_id} {entry.seq_no} says {entry.text!r}, not {texts[entry.seq_no]!r}")
