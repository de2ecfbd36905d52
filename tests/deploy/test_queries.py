"""What is read out of a query, and which mistakes are found in it."""

from __future__ import annotations

from tests.support.promql import Exposed, groupings, uses

PAGE = Exposed(
    {"tidings_push_total": {(("outcome", "sent"), ("provider", "fcm")): 1.0}, "tidings_connections": {(): 1.0}}
)


def test_metrics_matchers_and_groupings_are_found() -> None:
    query = 'sum by (le, provider) (rate(tidings_push_total{job="t", outcome=~"a|b"}[5m])) / up'
    assert [use.metric for use in uses(query)] == ["tidings_push_total", "up"]
    assert uses(query)[0].matchers == (("job", "=", "t"), ("outcome", "=~", "a|b"))
    assert groupings(query) == {"le", "provider"}


def test_a_query_of_what_there_is_has_no_fault() -> None:
    assert PAGE.faults('sum by (provider) (tidings_push_total{job="x", outcome="sent"}) > tidings_connections') == []


def test_every_kind_of_mistake_is_found() -> None:
    assert PAGE.faults("tidings_pushes_total") == ["no metric tidings_pushes_total"]
    assert PAGE.faults('tidings_push_total{result="sent"}') == ["tidings_push_total has no label result"]
    assert PAGE.faults('tidings_push_total{outcome=~"sent|lost"}') == ["tidings_push_total{outcome} is never lost"]
    assert PAGE.faults("sum by (table) (tidings_push_total)") == [
        "no label table in 'sum by (table) (tidings_push_total)'"
    ]
    assert PAGE.faults("1 + 1") == ["no metric in '1 + 1'"]
