from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.messaging.search.words import (
    SNIPPET_CHARS,
    TERMS_MAX,
    WORDS_MAX,
    has_link,
    hits_in,
    snippet_of,
    spans,
    terms_of,
    words_of,
)
from tidings.stores.tables.search import Term


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, WORLD!", ("hello", "world")),
        ("Élodie's Straße", ("elodie", "s", "strasse")),
        ("我在北京 ok", ("我", "在", "北", "京", "ok")),
        ("nice 👍🏽!", ("nice", "👍")),
        ("a_b-c 3x", ("a", "b", "c", "3x")),
        ("...", ()),
    ],
)
def test_a_text_is_taken_apart_into_words(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text).split() == [*words]


def test_a_query_asks_for_beginnings_and_phrases() -> None:
    assert terms_of("Donau 北京 x") == (Term(("donau",), True), Term(("北", "京")), Term(("x",)))
    assert terms_of("北 京") == (Term(("北",)), Term(("京",)))
    assert terms_of("👩\u200d💻") == (Term(("👩", "💻")),)
    assert terms_of(" -- ") == ()
    assert len(terms_of(" ".join(map(str, range(10, 60))))) == TERMS_MAX


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("北京", "我明天去北京开会"),
        ("東京", "昨日東京へ行きました"),
        ("donau", "Die Donaudampfschifffahrt beginnt"),
        ("elodie", "frag Élodie"),
        ("👍", "gut 👍👍"),
        ("안녕", "여러분 안녕하세요"),
        ("прив мир", "Мир, Привет!"),
    ],
)
def test_what_is_in_a_text_is_found(query: str, text: str) -> None:
    assert hits_in(terms_of(query), text)


@pytest.mark.parametrize(("query", "text"), [("京北", "去北京"), ("hello world", "hello"), ("x", "xy")])
def test_what_is_not_in_a_text_is_not_found(query: str, text: str) -> None:
    assert hits_in(terms_of(query), text) == []


def test_a_snippet_shows_the_hits_in_their_surroundings() -> None:
    text = "a" * 300 + " see you in Straße 5 "
    snippet = snippet_of(text, hits_in(terms_of("strasse"), text))
    assert ("Straße", True) in [tuple(piece) for piece in snippet]
    assert sum(len(part) for part, _ in snippet) <= SNIPPET_CHARS and snippet[0][1] is False
    assert snippet_of("北京", hits_in(terms_of("北京"), "北京")) == [("北京", True)]


def test_links_are_recognised() -> None:
    assert has_link("see https://example.com/x") and not has_link("example.com http:// x")


@given(st.text(max_size=80))
def test_every_word_of_a_text_finds_it_and_words_are_safe_for_the_indexes(text: str) -> None:
    words = words_of(text).split()
    assert not any(char in word for word in words for char in " '\"\\\0:*()")
    for word in words[:5]:
        assert hits_in((Term((word,)),), text)
    if terms := terms_of(text):
        assert hits_in(terms, text)
        assert "".join(part for part, _ in snippet_of(text, hits_in(terms, text))) in text


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_a_text_in_ascii_has_the_same_words_among_others(text: str) -> None:
    assert [*words_of(text).split(), "e"] == words_of(f"{text} é").split()


@given(st.text(max_size=300))
def test_a_text_has_the_words_that_hits_are_looked_for_in(text: str) -> None:
    assert words_of(text).split() == [span.word for span in spans(text)]


LONG = ["x" * 99 + " y", "é" * 99 + " y", "a é " * WORDS_MAX, "a b " * WORDS_MAX, "北" * 9_999, "x" * 64]


@pytest.mark.parametrize("text", LONG)
def test_long_words_and_long_texts_are_cut_alike_in_both(text: str) -> None:
    assert words_of(text).split() == [span.word for span in spans(text)]
