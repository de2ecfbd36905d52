"""The screen: 80 columns and 24 rows hold all of it, whatever is lost and however much happens."""

from __future__ import annotations

import msgspec

from tests.support.metrics_pages import reading_of, work
from tidings.operators.doctor.server_load import ServerLoad
from tidings.operators.doctor.slow_commands import SlowCommand
from tidings.operators.top.figures import Figures, figures_of
from tidings.operators.top.screen import lines
from tidings.operators.top.watch import NodeView, View
from tidings.telemetry.metrics import Metrics


def busy() -> Figures:
    metrics = Metrics()
    before = reading_of(metrics, 0.0)
    metrics.connections.set(123_456)
    for name in metrics.rate_limited:
        metrics.rate_limited[name].inc(10_000 if name == "send" else 5_000)
    for outcome in ("sent", "gone", "later", "refused", "skipped"):
        metrics.push["fcm", outcome].inc(1_000)
    work(metrics, 8_000, ack_s=4.0)
    return figures_of([(before, reading_of(metrics, 0.1))])


def view(nodes: int, lost: int = 0, slow: int = 20) -> View:
    figures = busy()
    living = [NodeView(f"http://node-{n}.chat.internal.example.com:8000", figures) for n in range(nodes - lost)]
    dead = [NodeView(f"http://10.0.0.{n}:8000", lost="All connection attempts failed, " * 9) for n in range(lost)]
    command = SlowCommand("EVALSHA inbox_index", "inbox:{" + "u" * 100 + "}", 123_456, 1)
    load = ServerLoad(
        where="a",
        cpu=0.97,
        in_bytes_s=1e8,
        out_bytes_s=1e9,
        commands_s=1e5,
        command_share=0.9,
        io_threads=16,
        verdict="I/O threads",
    )
    return View(at_ms=0, nodes=(*living, *dead), all=figures, servers=(load,) * 12, slow=(command,) * slow)


def shown(view: View, rows: int = 24) -> list[str]:
    return [line.plain for line in lines(view, rows)]


def test_everything_fits_80_columns_and_24_rows() -> None:
    for nodes, lost in ((1, 0), (3, 1), (40, 10), (2, 2)):
        found = shown(view(nodes, lost))
        assert len(found) <= 24 and max(map(len, found)) <= 80, found


def test_a_higher_terminal_shows_more_nodes() -> None:
    assert "and 37 more" in shown(view(40)) and len(shown(view(40), 60)) > 50


def test_it_tells_rates_stages_batches_rejects_and_slow_commands() -> None:
    text = "\n".join(shown(view(1)))
    for word in (
        "msg/s",
        "acknowledge",
        "p99",
        "batch size",
        "send 100k",
        "sent 10000",
        "EVALSHA inbox_index",
        "123456",
    ):
        assert word in text, word


def test_a_lost_node_stands_first_and_says_why() -> None:
    found = shown(view(40, lost=1))
    assert "1 LOST" in found[0] and "39 of 40 nodes" in found[0]
    assert found[3].startswith("10.0.0.0:8000") and "LOST: All connection" in found[3]


def test_nodes_are_shown_together_only_where_there_are_several() -> None:
    assert not any(line.startswith("together") for line in shown(view(1)))
    assert any(line.startswith("together") for line in shown(view(2)))


def test_before_the_second_look_there_is_nothing_to_tell() -> None:
    first = View(at_ms=0, nodes=(NodeView("http://a:1"),), all=None, slow=None)
    assert shown(first)[3].endswith("first reading") and "cannot be reached" in shown(first)[-1]


def test_a_quiet_node_shows_dashes_and_not_zeros() -> None:
    metrics = Metrics()
    quiet = figures_of([(reading_of(metrics, 0.0), reading_of(metrics, 1.0))])
    calm = msgspec.structs.replace(view(1), nodes=(NodeView("http://a:1", quiet),), all=quiet)
    assert "- (p99 -)" in "\n".join(shown(calm)) and "rejects/s   none" in "\n".join(shown(calm))


def test_the_busiest_server_of_the_keyspace_is_shown_with_the_verdict() -> None:
    (line,) = [line for line in shown(view(1)) if line.startswith("keyspace  ")]
    for word in ("97% cpu", "95.4 MiB/s", "io-threads 16", "I/O threads"):
        assert word in line
