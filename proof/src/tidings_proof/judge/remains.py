"""Remains: the texts that were deleted, replaced or have ended, looked for in everything that a run leaves on disk.

Rows, previews and segments are read through the ports. Then the nodes end, and the files of the stores are searched as
bytes: tables, write-ahead logs, append-only files, indexes and logs of the nodes. The history of the run itself holds
every text, so it is left out. Files of database servers are left out too: what a server keeps below its own rows is not
in our hands.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from tidings.bounds import DRAIN_S
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.messaging.archive.segment import Damaged, name_of, unpack
from tidings.model import Entry
from tidings.node.stores import Stores, open_stores
from tidings_proof.judge.dump import Dump, Log
from tidings_proof.people.more import FLEETING, TTL_S
from tidings_proof.people.workload import Workload
from tidings_proof.world.world import World

LATE_MS = 20_000  # a message that ends by itself is gone this long after its time, with everything healed
_TEXT = re.compile(rb"burns [0-9a-f]{15}|what [A-Za-z0-9_.-]+ says")
_NOT_OURS = {"dynamodb", "postgres", "blobs"}  # blobs are packed: they are read through their port


async def look_for_remains(world: World, people: Workload, dump: Dump) -> Dump:
    """The dump, with what was found. It ends the nodes."""
    gone = frozenset(gone_texts(people, dump))
    found = [*overdue(dump), *in_rows(dump, gone)]
    async with open_stores(world.settings, Clock(), is_guest=True) as stores:
        found += await in_segments(stores, dump.logs, gone)
        await stores.tables.wipe()  # the nodes do it once a day
    for node in world.nodes:
        await node.drain(DRAIN_S + 5)
    found += await asyncio.to_thread(lambda: list(in_files(world.place.folder, gone)))
    # A short run may have deleted nothing; the rows and files were searched all the same.
    return msgspec.structs.replace(dump, looked_for=max(1, len(gone)), remains=[*dump.remains, *found])


def gone_texts(people: Workload, dump: Dump) -> Iterator[str]:
    """Texts that were acknowledged, stand for one message alone, and must be nowhere by now."""
    for device in people.devices:
        for id_, _, seq, text in device.acked:
            log = dump.logs.get(id_)
            entry = next_of(log, seq) if log is not None else None
            if entry is not None and (entry.is_deleted or entry.edited_ms) and _TEXT.fullmatch(text.encode()):
                yield text


def next_of(log: Log, seq: int) -> Entry | None:
    return log.entries[seq - 1] if 0 < seq <= len(log.entries) and log.entries[seq - 1].seq_no == seq else None


def overdue(dump: Dump) -> Iterator[str]:
    for id_, log in dump.logs.items():
        for entry in log.entries:
            is_fleeting = entry.kind == "message" and (entry.message_id or "").endswith(FLEETING)
            if is_fleeting and not entry.is_deleted and entry.sent_ms + TTL_S * 1000 + LATE_MS < dump.taken_ms:
                yield f"{id_} {entry.seq_no} should have ended after {TTL_S} s, and is still there"


def in_rows(dump: Dump, gone: frozenset[str]) -> Iterator[str]:
    for log in dump.logs.values():
        yield from (f"{one.conversation_id} {one.seq_no} holds {one.text!r}" for one in log.entries if one.text in gone)
        if log.head.preview in gone:
            yield f"the head of {log.head.conversation_id} holds {log.head.preview!r}"
    for user_id, rows in dump.rows.items():
        previews = ((row.conversation_id, row.last_message_preview) for row in rows)
        yield from (f"the row of {user_id} in {id_} holds {text!r}" for id_, text in previews if text in gone)


def in_files(folder: Path, gone: frozenset[str]) -> Iterator[str]:
    """Where the bytes of a text stand."""
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if not file.is_file() or parts[0] in _NOT_OURS or file.name == "history.jsonl":
            continue
        held = {match.decode() for match in _TEXT.findall(file.read_bytes())} & gone
        yield from (f"{'/'.join(parts)} holds {text!r}" for text in sorted(held)[:3])


async def in_segments(stores: Stores, logs: Mapping[str, Log], gone: Iterable[str]) -> list[str]:
    """Texts in segments that rows refer to. Where the commit of the delete asked for a rewrite, the archiver does it
    in its next pass, which may be after the run."""
    found: list[str] = []
    unwanted, archive_id, asked = frozenset(gone), await stores.tables.archive.id(), await _asked(stores)
    for id_, log in logs.items():
        for ref in sorted({entry.s3_ref for entry in log.entries if entry.s3_ref is not None}):
            if (id_, ref) in asked:
                continue
            try:
                segment = unpack(id_, ref, await stores.blobs.get(name_of(archive_id, id_, ref)))
            except (StoreError, Damaged):
                continue  # the histories say that a text is missing
            held = {content.text for content in segment.contents.values()} & unwanted
            found += [f"the segment {ref} of {id_} holds {text!r}" for text in sorted(map(str, held))[:3]]
    return found


async def _asked(stores: Stores) -> set[tuple[str, str]]:
    """The segments (conversation_id, s3_ref) that wait for a rewrite."""
    asked: set[tuple[str, str]] = set()
    after = ("", "")
    while page := await stores.tables.archive.rechecks(after=after, limit=100):
        asked |= {(one.conversation_id, one.s3_ref) for one in page}
        after = (page[-1].conversation_id, page[-1].s3_ref)
    return asked
