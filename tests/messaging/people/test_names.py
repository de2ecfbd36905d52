from __future__ import annotations

import pytest

from tidings.bounds import NAME_WORDS_MAX
from tidings.messaging.people.names import asked_words, fold, is_match, words_of
from tidings.model import User


@pytest.mark.parametrize(
    ("text", "folded"),
    [("Élodie", "elodie"), ("STRASSE", "strasse"), ("Straße", "strasse"), ("Søren", "soren"), ("İpek", "ipek"),
     ("Ærø", "aero"), ("Ελένη", "ελενη"), ("山田", "山田")],
)  # fmt: skip
def test_case_and_accents_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_a_user_has_the_words_of_the_name_and_the_id() -> None:
    assert words_of(User(user_id="u-7")) == ["u-7"]
    assert words_of(User(user_id="U7", name="Anna-Lena O'Brien")) == [
        "u7", "anna-lena", "anna", "lena", "o'brien", "o", "brien",
    ]  # fmt: skip
    assert "太郎" in words_of(User(user_id="y", name="山田太郎"))
    assert len(words_of(User(user_id="y", name=" ".join(map(str, range(50)))))) == NAME_WORDS_MAX


@pytest.mark.parametrize("query", ["", "el", "ELO", "gar", "gar elo", "élodie garcía", "e.garcia"])
def test_each_word_asked_for_begins_a_word_of_the_user(query: str) -> None:
    assert is_match(asked_words(query), User(user_id="e.garcia@example.com", name="Élodie García"))


@pytest.mark.parametrize("query", ["lodie", "elodie x", "garciaa"])
def test_another_word_is_no_match(query: str) -> None:
    assert not is_match(asked_words(query), User(user_id="e7", name="Élodie García"))
