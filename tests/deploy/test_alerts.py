"""The dashboard and the alert rules ask only for what a real node exposes, and are of the form their readers want."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.deploy_files import DEPLOY, read_yaml
from tests.support.promql import Exposed
from tidings.node.node import Node
from tidings.operators.top.readings import read_page

OUTCOMES = ("sent", "gone", "later", "refused", "skipped")
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))


@pytest.fixture
async def exposed(node: Node) -> Exposed:
    """The page of a node that listens. Pushes and webhooks have labels once there was one."""
    for outcome in OUTCOMES:
        node.core.metrics.push["fcm", outcome].inc(0)
    node.core.metrics.show_webhook_lag("wh_1", 0.0)
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.get(f"http://127.0.0.1:{node.port}/metrics")
    return Exposed(read_page(answer.text, 0.0).samples)


def rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml("alerts.yaml")["groups"] for rule in group["rules"]]


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries(dashboard: dict[str, Any]) -> list[str]:
    shown = [target["expr"] for panel in panels(dashboard) for target in panel.get("targets", ())]
    chosen = [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return shown + chosen


async def test_alerts_ask_only_for_what_a_node_exposes(exposed: Exposed) -> None:
    faults = {rule["alert"]: exposed.faults(rule["expr"]) for rule in rules()}
    assert {name: found for name, found in faults.items() if found} == {}


async def test_dashboards_ask_only_for_what_a_node_exposes(exposed: Exposed) -> None:
    assert DASHBOARDS
    for file in DASHBOARDS:
        dashboard = json.loads(file.read_text("utf-8"))
        assert len(queries(dashboard)) > 20
        assert [fault for query in queries(dashboard) for fault in exposed.faults(query)] == []


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule["alert"]
        assert 'job="tidings"' in rule["expr"], rule["alert"]
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))


def test_commands_that_alerts_name_exist() -> None:
    from tidings.cli.main import VERBS

    named = {words for rule in rules() for words in re.findall(r"`tidings ([a-z ]+?)`", str(rule))}
    assert named and {words for words in named if words not in VERBS} == set()


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_is_whole(file: Any) -> None:
    dashboard = json.loads(file.read_text("utf-8"))
    found = list(panels(dashboard))
    assert len({panel["id"] for panel in found}) == len(found)
    assert dashboard["uid"] and dashboard["title"] and dashboard["schemaVersion"] >= 36
    names = {each["name"] for each in dashboard["templating"]["list"]}
    text = file.read_text("utf-8")
    own = {"__rate_interval", "__all"}  # Grafana's
    assert set(re.findall(r"\$\{?(\w+)", text)) <= names | own
    for panel in found:
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24, panel["title"]
        assert panel["type"] in ("row", "stat", "timeseries") and panel["title"]
        assert panel["type"] == "row" or panel["targets"], panel["title"]


def test_no_two_panels_lie_on_each_other() -> None:
    for file in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in panels(json.loads(file.read_text("utf-8"))):
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & taken, panel["title"]
            taken |= cells


@dataclass(frozen=True)
class Night:
    """What was scraped once a minute, and whether the alert fires at the minute `at`."""

    alert: str
    series: Mapping[str, str]
    at: int
    fires: bool


_UP = 'up{job="tidings", instance="%s"}'
_SENDS = 'tidings_send_seconds_bucket{job="tidings", le="%s"}'
NIGHTS = {
    "150 people sleep, and a message comes every 20 minutes": Night(
        "TidingsAcknowledgesNothing",
        {
            'tidings_connections{job="tidings"}': "150x300",
            'tidings_messages_total{job="tidings"}': " ".join(f"{n}x19" for n in range(15)),
        },
        at=178,
        fires=False,
    ),
    "a message a second, and from one minute to the next none": Night(
        "TidingsAcknowledgesNothing",
        {
            'tidings_connections{job="tidings"}': "150x300",
            'tidings_messages_total{job="tidings"}': "0+60x150 9000x100",
        },
        at=170,
        fires=True,
    ),
    "nothing was sent for an hour and a half": Night(
        "TidingsAcknowledgesNothing",
        {
            'tidings_connections{job="tidings"}': "150x300",
            'tidings_messages_total{job="tidings"}': "0+60x150 9000x150",
        },
        at=240,
        fires=True,
    ),
    "of a few sends in the night each takes a second": Night(
        "TidingsAcknowledgesSlowly",
        {_SENDS % "0.5": "0x300", _SENDS % "1": "0+1x300", _SENDS % "+Inf": "0+1x300"}
        | {'tidings_send_seconds_count{job="tidings"}': "0+1x300"},
        at=60,
        fires=False,
    ),
    "of many sends each takes a second": Night(
        "TidingsAcknowledgesSlowly",
        {_SENDS % "0.5": "0x300", _SENDS % "1": "0+60x300", _SENDS % "+Inf": "0+60x300"}
        | {'tidings_send_seconds_count{job="tidings"}': "0+60x300"},
        at=60,
        fires=True,
    ),
    "ten sends a second, and for an hour and a half one in five seconds, each slow": Night(
        "TidingsAcknowledgesSlowly",
        {_SENDS % "0.5": "0+600x150 90000x150", _SENDS % "1": "0+600x150 90000x150"}
        | {_SENDS % "+Inf": "0+600x150 90012+12x149"}
        | {'tidings_send_seconds_count{job="tidings"}': "0+600x150 90012+12x149"},
        at=240,
        fires=True,
    ),
    "a node is started anew within three minutes": Night(
        "TidingsNodeDown", {_UP % "a": "1x10 0x2 1x20"}, at=13, fires=False
    ),
    "one of three nodes is gone": Night(
        "TidingsHalfDown",
        {_UP % "a": "1x60", _UP % "b": "1x60", _UP % "c": "0x60"},
        at=30,
        fires=False,
    ),
    "a burst of pushes is worked off within minutes": Night(
        "TidingsStreamLags",
        {'tidings_stream_lag{job="tidings", stream="push"}': "0x10 50000x5 20x60"},
        at=15,
        fires=False,
    ),
    "no worker takes from the stream of pushes": Night(
        "TidingsStreamLags",
        {'tidings_stream_lag{job="tidings", stream="push"}': "0x10 20000x60"},
        at=40,
        fires=True,
    ),
    "an endpoint of a webhook is away for a quarter of an hour": Night(
        "TidingsWebhookLags",
        {'tidings_webhook_lag_seconds{job="tidings", webhook="wh_1"}': "0x10 0+60x15 0x60"},
        at=25,
        fires=False,
    ),
    "an endpoint of a webhook is away for an hour": Night(
        "TidingsWebhookLags",
        {'tidings_webhook_lag_seconds{job="tidings", webhook="wh_1"}': "0x10 0+60x60"},
        at=40,
        fires=True,
    ),
    "entries are refused until their conversation is paused": Night(
        "TidingsWebhookPaused",
        {'tidings_webhook_total{job="tidings", outcome="paused"}': "0x10 1x60"},
        at=15,
        fires=True,
    ),
    "two of three nodes are gone": Night(
        "TidingsHalfDown",
        {_UP % "a": "0x60", _UP % "b": "0x60", _UP % "c": "1x60"},
        at=30,
        fires=True,
    ),
}


@pytest.mark.parametrize("name", NIGHTS)
def test_nobody_is_woken_for_nothing(name: str, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    night = NIGHTS[name]
    series = [{"series": one, "values": values} for one, values in night.series.items()]
    # A test of promtool lists what fires; here it is enough whether it does.
    wanted = {"expr": f'count(ALERTS{{alertname="{night.alert}", alertstate="firing"}})', "eval_time": f"{night.at}m"}
    samples = [{"labels": "{}", "value": 1}] if night.fires else []
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [{**wanted, "exp_samples": samples}]}
    tests = {"rule_files": [str(DEPLOY / "alerts.yaml")], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "night.yaml").write_text(json.dumps(tests))
    words = [promtool, "test", "rules", str(tmp_path / "night.yaml")]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_prometheus_itself_takes_the_rules_and_the_queries(tmp_path: Any) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    queried = [query for file in DASHBOARDS for query in queries(json.loads(file.read_text("utf-8")))]
    exprs = [
        query.replace("$__rate_interval", "5m").replace("$", "") for query in queried if "label_values" not in query
    ]
    records = [{"record": f"r{n}", "expr": expr} for n, expr in enumerate(exprs)]
    (tmp_path / "queries.yaml").write_text(json.dumps({"groups": [{"name": "q", "rules": records}]}))
    for file in (DEPLOY / "alerts.yaml", tmp_path / "queries.yaml"):
        checked = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
