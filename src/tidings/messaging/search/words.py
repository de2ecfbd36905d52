"""Words: how a text is taken apart for search, and where its hits are.

A word is a run of letters and digits. A Chinese, Japanese or Korean character is a word of its own, and so is an emoji.
A run of them is a phrase. Case and accents do not matter. A word is found by its beginning. Texts and questions are
taken apart in the same way, so each text is found by what it says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from tidings.messaging.people.names import CJK, fold
from tidings.stores.tables.search import Term

TERMS_MAX = 16  # words of a query that count
WORDS_MAX = 4_000  # words of one message that can be found: a text of 16 KiB has about 3,000
WORD_CHARS_MAX = 64  # a longer word is cut, in the index as in a query
SNIPPET_CHARS = 160  # of a text in a hit
_ASCII_WORD = re.compile("[0-9A-Za-z]+")
_ASCII = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128)).encode()
_AS_COMPARED = _ASCII + bytes(range(128, 256))  # of each byte in UTF-8: what is no letter and no digit is a blank
_SHAPE = bytes(b" x"[byte != 32] for byte in _AS_COMPARED)  # of each byte: whether it is in a word
_TOO_LONG = b"x" * (WORD_CHARS_MAX + 1)
_LINK = re.compile(r"\bhttps?://[^\s<>\"']+", re.IGNORECASE)
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")  # inside an emoji
_BEFORE = SNIPPET_CHARS // 3  # characters of a snippet before its first hit

Piece = tuple[str, bool]  # a part of a snippet, and whether it is a hit


class Span(NamedTuple):
    word: str
    start: int
    end: int
    is_single: bool  # a character that is a word of its own


def spans(text: str) -> Iterator[Span]:
    """The words of a text with their places, WORDS_MAX at most."""
    if text.isascii():
        for found in islice(_ASCII_WORD.finditer(text), WORDS_MAX):
            yield Span(_word(found[0]), *found.span(), False)
        return
    count, begin = 0, None
    for at, char in enumerate(text + " "):
        kind = _kind(char)
        if begin is not None and kind != "word":
            if word := _word(text[begin:at]):
                yield Span(word, begin, at, False)
                count += 1
            begin = None
        if kind == "word" and begin is None:
            begin = at
        elif kind == "single":
            yield Span(unicodedata.normalize("NFC", char), at, at + 1, True)
            count += 1
        if count >= WORDS_MAX:
            return


@lru_cache(4096)
def _kind(char: str) -> str:
    if char.isascii():
        return "word" if char.isalnum() else ""
    category = unicodedata.category(char)
    if CJK.match(char) or category == "So":
        return "single"
    return "word" if category[0] in "LNM" and char not in _JOINERS else ""


def _word(text: str) -> str:
    """The word as it is compared: only letters, digits and signs outside ASCII."""
    if text.isascii():
        return text.lower()[:WORD_CHARS_MAX]
    return "".join(char for char in fold(text) if char.isalnum() or not char.isascii())[:WORD_CHARS_MAX]


def words_of(text: str) -> str:
    """The words as `spans` has them, without their places: one text, with blanks between them."""
    if not text.isascii():
        text = " ".join([run if run.isascii() else _words_in(run) for run in text.split()])
    raw = text.encode()
    words = raw.translate(_AS_COMPARED).decode()
    if len(raw) < 2 * WORDS_MAX and (len(raw) <= WORD_CHARS_MAX or _TOO_LONG not in raw.translate(_SHAPE)):
        return words.strip()
    return " ".join([word[:WORD_CHARS_MAX] for word in words.split()[:WORDS_MAX]])


def _words_in(run: str) -> str:
    """The words of a run without blanks. Most runs are short, and came before."""
    return _known_words(run) if len(run) <= WORD_CHARS_MAX else _find_words(run)


def _find_words(run: str) -> str:
    return " ".join([span.word for span in spans(run)])


_known_words = lru_cache(4096)(_find_words)  # 2 MB


def has_link(text: str) -> bool:
    return "://" in text and _LINK.search(text) is not None


def terms_of(query: str) -> tuple[Term, ...]:
    """The terms of a query: each word by its beginning, each run of single characters as a phrase."""
    terms: list[Term] = []
    run: list[str] = []
    end = -1
    for span in spans(query):
        if run and not (span.is_single and _JOINERS.issuperset(query[end : span.start])):
            terms.append(Term(tuple(run)))
            run = []
        if span.is_single:
            run.append(span.word)
        else:
            terms.append(Term((span.word,), is_prefix=len(span.word) > 1))
        end = span.end
    if run:
        terms.append(Term(tuple(run)))
    return tuple(dict.fromkeys(terms))[:TERMS_MAX]


def hits_in(terms: Sequence[Term], text: str) -> list[tuple[int, int]]:
    """Where the terms are in the text, in their order; empty where one of them is missing."""
    found: list[tuple[int, int]] = []
    there = list(spans(text))
    for term in terms:
        places = list(_places(term, there))
        if not places:
            return []
        found += places
    return sorted(set(found))


def _places(term: Term, there: Sequence[Span]) -> Iterator[tuple[int, int]]:
    size = len(term.words)
    for at in range(len(there) - size + 1):
        run = there[at : at + size]
        words = [span.word for span in run]
        is_hit = words[0].startswith(term.words[0]) if term.is_prefix else words == [*term.words]
        if is_hit:
            yield run[0].start, run[-1].end


def snippet_of(text: str, hits: Sequence[tuple[int, int]]) -> list[Piece]:
    """The part of the text around its first hit, with the hits marked."""
    begin = max(0, hits[0][0] - _BEFORE)
    end = min(len(text), begin + SNIPPET_CHARS)
    pieces: list[Piece] = []
    at = begin
    for start, stop in hits:
        if start < at or stop > end:
            continue
        pieces += [(text[at:start], False), (text[start:stop], True)]
        at = stop
    return [(part, is_hit) for part, is_hit in [*pieces, (text[at:end], False)] if part]
