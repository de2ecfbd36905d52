from __future__ import annotations

import pytest

from tidings.errors import TABLE, Close
from tidings_client.errors import RateLimited, Refusal, Stopped, Unknown, may_come_back, problem_of


@pytest.mark.parametrize("code", TABLE)
def test_every_code_is_raised_as_its_exception(code: str) -> None:
    problem = problem_of(Refusal(code, "why", TABLE[code].is_temporary, 5))
    assert problem.code == code
    assert problem.is_temporary == TABLE[code].is_temporary
    assert problem.retry_after_ms == 5


def test_a_budget_is_named() -> None:
    problem = problem_of(Refusal("rate_limited", "the read budget is used up", True, 1_200))
    assert isinstance(problem, RateLimited) and problem.class_name == "read"


def test_a_code_of_a_newer_server_is_kept_as_it_is() -> None:
    problem = problem_of(Refusal("tired", "later", True, 7))
    assert isinstance(problem, Unknown)
    assert (problem.code, problem.is_temporary, problem.retry_after_ms, problem.status) == ("tired", True, 7, 500)


def test_45xx_stops_and_everything_else_comes_back() -> None:
    assert {close for close in Close if not may_come_back(close)} == {close for close in Close if close >= 4500}
    assert may_come_back(None) and may_come_back(1006)


def test_a_stop_says_why() -> None:
    assert "replaced" not in str(Stopped(4505)) and "same device" in str(Stopped(4505))
    assert Stopped(4599).code == 4599
