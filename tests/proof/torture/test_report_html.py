"""The page: well-formed, without a script, with everything that the verdict says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from tests.proof.torture.test_report import BROKEN, KEPT, UNSEEN, outcome
from tidings_proof.torture.report_html import LEFT, WIDTH, as_html, timeline
from tidings_proof.torture.run import Options


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_what_the_verdict_says_and_runs_nothing() -> None:
    tags = Tags()
    tags.feed(as_html(outcome(KEPT, BROKEN)))
    assert "script" not in tags.seen and {"svg", "table", "code"} <= set(tags.seen)
    assert "BROKEN" in tags.text and "in order <always>" in tags.text and "u1 <b>" in tags.text
    assert "tidings torture --seed 7" in tags.text
    assert "every promise was kept" in as_html(outcome(KEPT))


def test_the_page_names_no_stores_where_the_nodes_ran_already() -> None:
    running = Options(seed=7, addresses=("http://127.0.0.1:8000",))
    assert "on nodes that run already." in as_html(outcome(KEPT, options=running))
    assert "on sqlite+valkey." in as_html(outcome(KEPT))


def test_the_page_claims_nothing_that_was_not_looked_at() -> None:
    page = as_html(outcome(KEPT, UNSEEN))
    assert '<td class="not-looked-at">not looked at<td>' in page and '<td class="kept">kept<td>' in page
    assert "every promise was kept" not in page
    assert '<span class="kept">every promise that was looked at was kept; not looked at: I12</span>' in page


def test_the_picture_has_a_bar_for_each_fault_and_a_mark_for_each_violation() -> None:
    svg = ElementTree.fromstring(timeline(outcome(KEPT, BROKEN)))
    bars = [node for node in svg.iter() if node.tag == "rect"]
    marks = [node for node in svg.iter() if node.tag == "path" and node.get("fill")]
    assert len(bars) == 2 and len(marks) == 1
    assert all(LEFT <= float(bar.get("x", "")) <= WIDTH for bar in bars)
    (line,) = [node for node in svg.iter() if node.tag == "polyline"]
    assert len(re.findall(r"[\d.]+,[\d.]+", line.get("points", ""))) == 3


def test_a_run_in_which_nothing_happened_has_a_picture_too() -> None:
    assert ElementTree.fromstring(timeline(outcome(done=[], beats=[]))).tag == "svg"
