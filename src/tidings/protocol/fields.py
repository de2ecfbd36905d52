"""Fields: a reader may name the fields of rows or messages that it wants, and gets these alone.

The key of a row is always there: `conversation_id` or `seq`. A field that has nothing to say is left out, as it is
without `fields`. The fields of the page beside its rows are all there, unless some of them are named too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from tidings.errors import BadRequest
from tidings.protocol.bodies import HistoryBody, InboxBody, InboxRowBody, MessageBody

Picked = dict[str, Any]
_ROWS, _MESSAGES = "conversations", "messages"  # the lists of the two pages


class PickedRow(msgspec.Struct, frozen=True):
    """An inbox row with the fields that `fields` names."""

    conversation_id: str


class PickedMessage(msgspec.Struct, frozen=True):
    """A MESSAGE with the fields that `fields` names."""

    seq: int


class PickedInboxBody(msgspec.Struct, frozen=True):
    """A page of the inbox, where the query names `fields`."""

    conversations: list[PickedRow]
    next_cursor: str | UnsetType | None = UNSET
    total_unread: int | UnsetType = UNSET
    unread_conversations: int | UnsetType = UNSET
    stale: bool | UnsetType = UNSET


class PickedHistoryBody(msgspec.Struct, frozen=True):
    """A page of history, where the query names `fields`."""

    messages: list[PickedMessage]
    next_before_seq: int | UnsetType | None = UNSET
    next_after_seq: int | UnsetType | None = UNSET
    head: int | UnsetType = UNSET


class Names(NamedTuple):
    """The fields that a query names, of each row and of the page; none of the rows: everything is wanted."""

    rows: tuple[str, ...] = ()
    page: tuple[str, ...] = ()


def inbox_fields(text: str | None) -> Names:
    """The fields that a query for the inbox names. Raises BadRequest."""
    return _names_in(text, "conversation_id", InboxRowBody, _ROWS, InboxBody)


def history_fields(text: str | None) -> Names:
    """The fields that a query for history names. Raises BadRequest."""
    return _names_in(text, "seq", MessageBody, _MESSAGES, HistoryBody)


def picked_inbox(body: InboxBody, names: Names) -> InboxBody | Picked:
    return _picked(body, _ROWS, names) if names.rows else body


def picked_history(body: HistoryBody, names: Names) -> HistoryBody | Picked:
    return _picked(body, _MESSAGES, names) if names.rows else body


def _names_in(text: str | None, key: str, row: type[msgspec.Struct], rows: str, page: type[msgspec.Struct]) -> Names:
    if not text:
        return Names()
    names = list(dict.fromkeys(text.split(",")))
    of_row = tuple(name for name in names if name in row.__struct_fields__ and name != key)
    of_page = tuple(name for name in names if name in page.__struct_fields__ and name != rows)
    for name in names:
        if name != key and name not in of_row and name not in of_page:
            raise BadRequest(f"`fields` names a field that is not there: {name[:40]!r}")
    return Names((key, *of_row), of_page)


def _picked(body: msgspec.Struct, rows: str, names: Names) -> Picked:
    page = _said(body, names.page or body.__struct_fields__)
    return page | {rows: [_said(row, names.rows) for row in getattr(body, rows)]}


def _said(value: msgspec.Struct, names: Sequence[str]) -> Picked:
    """The named fields that have something to say."""
    return {name: said for name in names if (said := getattr(value, name)) is not UNSET}
