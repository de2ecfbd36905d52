"""The lines of an export: one JSON object each, with a `type`. `import jsonl` reads what `export` writes.

`user`, `conversation`, `record` and `message` hold everything that an import puts back. A message of an export has its
`seq`, and is put back as it was. A line without `seq`, as people write it by hand, is numbered by the import. Other
types tell a person about themselves; an import skips them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.errors import BadRequest
from tidings.messaging.people.mentions import mentioned
from tidings.model import KINDS, Content, Entry, Head, Member, MemberChange, User
from tidings.stores.tables.records import Record

Line = dict[str, Any]
SKIPPED = frozenset(("mark", "device", "block", "preferences", "own_record", "reaction"))  # of the export of a person
_CONTENT = Content.__struct_fields__


def encode(line: Line) -> bytes:
    return msgspec.json.encode({name: value for name, value in line.items() if value is not None}) + b"\n"


def line_of_user(user: User) -> Line:
    return {"type": "user", "user_id": user.user_id, "name": user.name, "avatar_url": user.avatar_url}


def line_of_conversation(head: Head, members: list[Member]) -> Line:
    return {
        "type": "conversation",
        "conversation_id": head.conversation_id,
        "kind": head.kind,
        "name": head.name,
        "avatar_url": head.avatar_url,
        "history": head.history if head.history != "all" else None,
        "created_at": head.created_ms,
        "floor_seq": head.floor_seq or None,
        "members_seq": head.members_seq or None,
        "members": [_line_of_member(member) for member in members],
    }


def _line_of_member(member: Member) -> Line:
    line: Line = {"user_id": member.user_id, "role": member.role, "joined_at": member.joined_ms}
    return line | ({"joined_seq": member.joined_seq} if member.joined_seq else {})


def line_of_record(conversation_id: str, record: Record) -> Line:
    return {
        "type": "record",
        "conversation_id": conversation_id,
        "collection": record.collection,
        "name": record.name,
        "value": msgspec.json.decode(record.value),
        "due_at": record.due_ms,
    }


def line_of_entry(entry: Entry) -> Line:
    content = msgspec.to_builtins(entry.content) if entry.content is not None else {}
    return {
        "type": "message",
        "conversation_id": entry.conversation_id,
        "seq": entry.seq_no,
        "kind": entry.kind if not KINDS[entry.kind].counts else None,
        "message_id": entry.message_id,
        "sender_id": entry.sender_id,
        "receiver_id": entry.receiver_id,
        "sent_at": entry.sent_ms,
        "ts": entry.timestamp,
        **content,
        "member": msgspec.to_builtins(entry.member) if entry.member is not None else None,
        "target_seq": entry.target_seq,
        "of_thread": entry.thread_seq if entry.thread_seq != thread_said(entry.content) else None,
        "deleted": entry.is_deleted or None,
        "edited_at": entry.edited_ms,
        "edit_seq": entry.edit_seq,
        "mentioned": entry.mentions if entry.mentions != mentioned(entry.content) else None,
        "uncounted": entry.is_uncounted or None,
        "unavailable": entry.is_unavailable or None,
    }


def entry_of_line(line: Line) -> Entry:
    """Raises BadRequest."""
    kind = line.get("kind", "message")
    if kind not in KINDS:
        raise BadRequest(f"`kind`: there is no `{kind}`")
    try:
        content = content_of(line) if KINDS[kind].has_content else None
        member = msgspec.convert(line["member"], MemberChange) if "member" in line else None
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from None
    return Entry(
        conversation_id=line["conversation_id"],
        seq_no=line["seq"],
        kind=kind,
        sent_ms=line["sent_at"],
        message_id=line.get("message_id"),
        sender_id=line.get("sender_id"),
        receiver_id=line.get("receiver_id"),
        content=content,
        timestamp=line.get("ts"),
        member=member,
        target_seq=line.get("target_seq"),
        is_deleted=line.get("deleted", False),
        edited_ms=line.get("edited_at"),
        edit_seq=line.get("edit_seq"),
        is_uncounted=line.get("uncounted", False),
        thread_seq=line.get("of_thread", line.get("thread_seq")),
        mentions=tuple(line["mentioned"]) if "mentioned" in line else mentioned(content),
    )


def content_of(line: Line) -> Content | None:
    """The fields of a line that its author wrote. None: there are none."""
    said = {name: line[name] for name in _CONTENT if name in line}
    return msgspec.convert(said, Content) if said else None


def thread_said(content: Content | None) -> int | None:
    return content.thread_seq if content is not None else None
