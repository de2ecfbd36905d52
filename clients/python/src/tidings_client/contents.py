"""The checks of what a message says, before it is sent: the server would refuse the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidings_client.bounds import DATA_BYTES_MAX, TEXT_BYTES_MAX
from tidings_client.errors import BadRequest, TooLarge

Data = dict[str, Any]


def check_content(text: str, data: Data | None, files: Sequence[str] = ()) -> None:
    """Refuse a message that says nothing, or too much."""
    _check_text(text)
    if data is not None:
        _check_data(data)
    if not data and not files and (not text or text.isspace()):
        raise BadRequest("`text` is empty; a message needs a text, `data` or `files`")


def check_patch(text: str | UnsetType, data: Data | UnsetType | None, *others: object) -> None:
    if all(given is UNSET for given in (text, data, *others)):
        raise BadRequest("give `text`, `data` or `mentions`")
    if text is not UNSET:
        _check_text(text)
    if data is not UNSET and data is not None:
        _check_data(data)


def _check_data(data: Data) -> None:
    """Data is measured as JSON with sorted keys. The server checks how deep it is nested."""
    try:
        raw = msgspec.json.encode(data, order="sorted")
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadRequest(f"`data` is not JSON: {problem}") from None
    if len(raw) > DATA_BYTES_MAX:
        raise TooLarge(f"`data` has {DATA_BYTES_MAX} bytes at most")


def _check_text(text: str) -> None:
    """Measure a text in UTF-8 bytes. A character has four at most, so a short text need not be encoded."""
    if len(text) * 4 > TEXT_BYTES_MAX and len(text.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
        raise TooLarge(f"a text has {TEXT_BYTES_MAX} bytes at most")
