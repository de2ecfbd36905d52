"""Names: the words of a name as the directory compares them. Case and accents do not matter.

A word can be found by its beginning. Chinese, Japanese and Korean names have no spaces: each character begins a word.
"""

from __future__ import annotations

import re
import unicodedata

from tidings.bounds import NAME_WORDS_MAX
from tidings.model import User

_PARTS = re.compile(r"\w+")
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
# Letters with a stroke or two letters in one: Unicode does not take them apart.
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)


def fold(text: str) -> str:
    """The text without case and accents."""
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    bare = "".join(char for char in apart if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare).translate(_LETTERS)


def words_of(user: User) -> list[str]:
    """The words by which the directory finds a user: the user id, and each word of the name with its parts."""
    found = {fold(user.user_id): None}
    for word in fold(user.name or "").split():
        found |= dict.fromkeys([word, *_PARTS.findall(word), *(word[at.start() :] for at in CJK.finditer(word))])
    return list(found)[:NAME_WORDS_MAX]


def asked_words(query: str) -> list[str]:
    return fold(query).split()


def is_match(asked: list[str], user: User) -> bool:
    """Whether each word that was asked for begins a word of the user."""
    words = words_of(user)
    return all(any(word.startswith(one) for word in words) for one in asked)
