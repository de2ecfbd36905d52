"""Pages of /metrics as a node makes them: from real metrics that were told of real work."""

from __future__ import annotations

from tidings.operators.top.readings import Reading, read_page
from tidings.telemetry.metrics import Metrics


def page_of(metrics: Metrics) -> str:
    return metrics.render().decode()


def reading_of(metrics: Metrics, at_s: float) -> Reading:
    return read_page(page_of(metrics), at_s)


def work(metrics: Metrics, messages: int, ack_s: float = 0.002) -> None:
    """As a node that stored so many messages in batches of eight."""
    metrics.messages.inc(messages)
    metrics.deliveries.inc(2 * messages)
    metrics.keyspace_commands.inc(5 * messages)
    for _ in range(messages):
        metrics.send_seconds.observe(ack_s)
    for _ in range(messages // 8):
        metrics.batch_size.observe(8)
        for tally in metrics.stage_seconds.values():
            tally.observe(ack_s / 4)
