"""A server seen from outside."""

from __future__ import annotations

import pytest

from tidings_proof.bench.target.target import Refused, Target, each, require_answer


def test_two_users_have_one_conversation_and_it_takes_messages(target: Target) -> None:
    id_ = target.direct("target-a", "target-b")
    assert target.direct("target-b", "target-a") == id_
    assert [target.say(id_, "target-a", f"m{number}", "hi") for number in range(2)] == [1, 2]


def test_what_a_server_refuses_is_told_with_its_words(target: Target) -> None:
    with pytest.raises(Refused, match=r"404 .*not_found"):
        target.call("GET", "/v1/conversations/nowhere", user_id="target-a")


def test_a_server_that_answers_anything_is_there_and_one_that_is_not_is_named(target: Target) -> None:
    require_answer(target.url)
    require_answer(f"{target.url}/nowhere")
    with pytest.raises(ConnectionError, match=r"\Anothing answers at http://127\.0\.0\.1:1\Z"):
        require_answer("http://127.0.0.1:1")


def test_a_metric_is_read_by_its_labels(target: Target) -> None:
    before = target.metric("tidings_table_rows_read_total", table="conversations")
    target.direct("target-c", "target-d")
    target.call("GET", "/v1/inbox", user_id="target-c")
    assert target.metric("tidings_table_rows_read_total", table="conversations") > before
    assert target.metric("tidings_no_such_thing") == 0.0


def test_the_results_come_in_the_order_of_the_items() -> None:
    assert each(lambda number: number * 2, range(50)) == [number * 2 for number in range(50)]
