"""Names and pictures of people and conversations: which texts can be shown as one."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from msgspec import Meta

from tidings.bounds import URL_CHARS_MAX

_JOINERS = frozenset("\u200c\u200d") | frozenset(map(chr, range(0xE0020, 0xE0080)))
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_BLANK = frozenset(("Zs", "Mn", "Me"))

# A picture elsewhere, or one that was uploaded here.
Url = Annotated[
    str,
    Meta(
        max_length=URL_CHARS_MAX,
        pattern=r"^(https?://[^\s<>\"']+|/v1/pictures/[0-9a-f]{32}/[0-9a-f]{32})(?![\s\S])",
    ),
]


def is_name(text: str) -> bool:
    """Say whether the text can be shown as a name: it has a visible character, and nothing that disguises another name.

    Control characters and format characters (direction, zero width) are refused. The two joiners and the tags stay:
    emoji and several scripts need them.
    """
    kinds = {unicodedata.category(character) for character in text if character not in _JOINERS}
    return not kinds & _UNSEEN and bool(kinds - _BLANK)
