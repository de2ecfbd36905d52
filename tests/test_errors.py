"""The table of errors is whole, and docs/use/errors.md says the same. Run this file to write the tables anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidings import errors
from tidings.errors import CLOSE_MEANING, TABLE, Close, Problem, RateLimited

PAGE = Path(__file__).resolve().parent.parent / "docs" / "use" / "errors.md"
OPENING = """# Errors

Written from `src/tidings/errors.py`; a test compares the two.

An error answers a request as `{"type":"error","id":…,"code":…,"temporary":…,"retry_after_ms":…,"message":…}` on the
WebSocket, and as `{"error":{"code","message","temporary","retry_after_ms"}}` with the status below over REST. After
a temporary error you may send again, unchanged, with the same `message_id`: the message is stored once at most. 429
carries `Retry-After` and `X-RateLimit-Limit`, `-Remaining` and `-Reset`.

| code | status | temporary | meaning |
|---|---|---|---|
"""
CLOSES = """
## Why a socket is closed

After 40xx and 1009 the client may come back. After 45xx it should stop: another try will end the same way.

| code | name | then | meaning |
|---|---|---|---|
"""
SECTIONS = "\n## Each code\n"


def then(close: Close) -> str:
    return "stop" if close >= 4500 else "come back"


def page() -> str:
    codes = "".join(
        f"| `{code}` | {rule.status} | {'yes' if rule.is_temporary else 'no'} | {rule.meaning} |\n"
        for code, rule in TABLE.items()
    )
    closes = "".join(
        f"| {close.value} | {close.name.lower()} | {then(close)} | {CLOSE_MEANING[close]} |\n" for close in Close
    )
    return OPENING + codes + CLOSES + closes


def sections() -> dict[str, str]:
    """What is written by hand below the tables: heading -> text."""
    parts = re.split(r"^### `?([^`\n]+)`?\n", PAGE.read_text("utf-8").partition(SECTIONS)[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_begins_with_the_tables() -> None:
    assert PAGE.read_text("utf-8").partition(SECTIONS)[0] == page()


def test_every_code_has_a_section_to_land_on() -> None:
    assert list(sections()) == [*TABLE, *(f"{close.value} {close.name.lower()}" for close in Close)]


@pytest.mark.parametrize("code", TABLE)
def test_a_section_says_the_cause_what_to_do_and_what_the_clients_do(code: str) -> None:
    text = sections()[code]
    assert [label for label in ("**Cause.**", "**Do.**", "**Clients.**") if label not in text] == []
    assert ("send it again" in text or "sends it again" in text) == TABLE[code].is_temporary


@pytest.mark.parametrize("close", Close)
def test_a_section_of_a_close_code_says_what_to_do(close: Close) -> None:
    assert len(sections()[f"{close.value} {close.name.lower()}"].strip()) > 40


def problems() -> list[type[Problem]]:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Problem)]
    return [problem for problem in found if problem is not Problem]


def test_every_code_has_exactly_one_problem_and_its_special_cases_share_it() -> None:
    assert sorted(problem.code for problem in problems() if Problem in problem.__bases__) == sorted(TABLE)
    special = [problem for problem in problems() if Problem not in problem.__bases__]
    assert [problem for problem in special if "code" in vars(problem)] == []


@pytest.mark.parametrize("problem", problems(), ids=lambda problem: problem.code)
def test_a_problem_answers_as_its_row_says(problem: type[Problem]) -> None:
    refusal = problem(retry_after_ms=5)
    assert (refusal.status, refusal.is_temporary) == TABLE[problem.code][:2]
    assert str(refusal)
    assert refusal.retry_after_ms == 5


def test_the_temporary_codes_are_those_of_the_protocol() -> None:
    assert {code for code, rule in TABLE.items() if rule.is_temporary} == {
        "rate_limited",
        "held",
        "unavailable",
        "internal",
    }


def test_a_refusal_by_the_limiter_says_which_budget() -> None:
    refusal = RateLimited(retry_after_ms=1200, limit=100, class_name="read")
    assert "read" in str(refusal) and refusal.limit == 100 and refusal.retry_after_ms == 1200


def test_every_close_has_a_meaning_and_its_range_says_what_to_do() -> None:
    assert set(CLOSE_MEANING) == set(Close)
    assert {close for close in Close if close >= 4500} == {
        Close.BAD_TOKEN,
        Close.BAD_FRAMES,
        Close.NO_CONNECT,
        Close.REVOKED,
        Close.TOO_MANY_CONNECTIONS,
        Close.REPLACED,
    }


def test_an_unavailable_store_says_whether_it_may_have_acted() -> None:
    assert errors.Unavailable("gone", is_ambiguous=True).is_ambiguous
    assert not errors.Unavailable("gone").is_ambiguous


def test_a_store_error_keeps_the_first_place_that_it_is_given() -> None:
    error = errors.Throttled("less")
    error.locate("tables", "append")
    error.locate("keyspace", "inbox_index")
    assert (error.store, error.op) == ("tables", "append")


def test_the_cause_names_the_store_and_the_operation_of_the_error_it_was_raised_from() -> None:
    error = errors.Unavailable("timeout", is_ambiguous=True)
    error.__cause__ = errors.Unavailable("timeout", store="keyspace", op="PING")
    assert errors.cause_of(error, user="u1") == {
        "user": "u1",
        "error": "Unavailable",
        "store": "keyspace",
        "op": "PING",
        "cause": "timeout",
    }


def test_the_cause_of_an_error_without_words_is_its_kind() -> None:
    assert errors.cause_of(TimeoutError()) == {"error": "TimeoutError", "cause": "TimeoutError"}


if __name__ == "__main__":
    kept = PAGE.read_text("utf-8").partition(SECTIONS)
    PAGE.write_text(page() + kept[1] + kept[2], "utf-8")
