"""The picture: well-formed, a bar for each figure, a dash for each that is missing."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tidings_proof.bench.versus.everyone import EVERYONE
from tidings_proof.bench.versus.picture import COLOURS, scale_of, svg


def test_each_figure_is_a_bar_and_a_server_without_one_has_a_dash() -> None:
    groups = {"a < b: us": {"tidings": 150.0, "socketio": 75.0}, "inbox": {"tidings": 1_000.0}}
    drawn = ET.fromstring(svg(groups, {"tidings": "Tidings", "socketio": "Socket.IO"}, "measured"))
    bars = [float(one.attrib["width"]) for one in drawn.iter("{http://www.w3.org/2000/svg}rect")][1:]
    texts = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert bars[0] == 2 * bars[1] == bars[2], "each group has its own scale"
    assert {"a < b: us", "150", "75", "-", "measured"} <= set(texts)


def test_a_bar_that_would_hide_the_others_is_cut() -> None:
    assert scale_of([10.0, 20.0]) == 20.0
    assert scale_of([10.0, 20.0, 5_000.0]) == 80.0


def test_everyone_has_a_colour() -> None:
    assert {rival.key for rival in EVERYONE} <= COLOURS.keys()
