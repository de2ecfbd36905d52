"""Metrics: every number that a node counts for Prometheus.

`Metrics` has a registry of its own, so several nodes can live in one process. Every series that the hot path uses is
bound once: counting is one method call. Parts below `node/` get bound methods (`metrics.messages.inc`) and never
import this module.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tidings.bounds import CLASSES

STAGES = ("admit", "number", "store", "index", "acknowledge", "route")
TABLES = (
    "search",
    "messages",
    "sent",
    "conversation_heads",
    "conversations",
    "members",
    "message_status",
    "pending_deliveries",
    "users",
    "devices",
    "api_keys",
    "rate_overrides",
    "blocks",
    "preferences",
    "archives",
    "rechecks",
)
REPAIRS = ("row", "inbox", "open", "void", "unread")  # late rows, left inboxes, work of dead nodes, gaps, counts
REFUSED = (*CLASSES, "in_flight")  # in_flight: too many requests of a user, or of all, were under way
STREAMS = ("audit", "push")
BEFORE_SEND_VERDICTS = ("allow", "refuse", "rewrite", "sender_only", "failed")
WEBHOOK_OUTCOMES = ("delivered", "failed", "refused", "paused")
SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # up to the largest batch

ARCHIVE_FAILURES = ("damaged", "missing", "failed")  # of a segment, an object, a conversation or a whole pass
ARCHIVE_SOURCES = ("blobs", "cache")

C = TypeVar("C")
K = TypeVar("K", bound="str | tuple[str, ...]")
REBUILT = ("inbox", "unread", "threads", "tally")  # all of a user, one conversation, threads, a large conversation


class Tally:
    """The counts of one histogram series: plain integers without a lock, because only the event loop observes."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative buckets, as Prometheus wants them."""
        edges = [str(float(bound)) for bound in self._bounds] + ["+Inf"]
        return list(zip(edges, map(float, accumulate(self._counts)), strict=True))

    @property
    def sum(self) -> float:
        return self._sum


class Count:
    """One counter series: a plain number without a lock, because only the event loop counts."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Children(dict[K, C], Generic[K, C]):
    """Label value(s) -> child. Known values exist from the start, at zero; others from their first use."""

    def __init__(self, make: Callable[[K], C], known: Iterable[K] = ()) -> None:
        self._make = make
        super().__init__((key, make(key)) for key in known)

    def __missing__(self, key: K) -> C:
        child = self[key] = self._make(key)
        return child


class Histogram(Collector):
    """A histogram family over `Tally`s, one per value of its label; without a label, one with the value ''."""

    def __init__(self, name: str, about: str, bounds: Sequence[float], label: str = "", known: Iterable[str] = ("",)):
        self._name, self._about, self._label = name, about, label
        self.series: Children[str, Tally] = Children(lambda value: Tally(bounds), known)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._about, labels=[self._label] if self._label else [])
        for value, tally in self.series.items():
            family.add_metric([value] if self._label else [], tally.buckets(), tally.sum)
        yield family


class Counter(Collector):
    """A counter family over `Count`s, one per value(s) of its labels; without labels, one with the value ''."""

    def __init__(self, name: str, about: str, labels: Sequence[str] = (), known: Iterable[Any] = ("",)) -> None:
        self._name, self._about, self._labels = name, about, labels
        self.series: Children[Any, Count] = Children(lambda values: Count(), known)

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._about, labels=self._labels)
        for values, count in self.series.items():
            named = values if isinstance(values, tuple) else (values,)
            family.add_metric(named if self._labels else (), count.value)
        yield family


class Metrics:
    """Every metric of a node. node/ hands the attributes to the parts that count."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.connections = Gauge("tidings_connections", "Open WebSocket connections.", registry=registry)
        about = "Large conversations whose members this node has in memory."
        self.large_conversations = Gauge("tidings_large_conversations", about, registry=registry)
        self.store_up = Gauge("tidings_store_up", "1 while a store answers, by store.", ["store"], registry=registry)
        self.stream_lag = Gauge(
            "tidings_stream_lag", "Entries of a stream that no worker has finished.", ["stream"], registry=registry
        )
        for stream in STREAMS:
            self.show_lag(stream, 0)
        self.messages = self._counter("messages", "Messages stored and acknowledged for the first time.")
        self.expired = self._counter("expired", "Messages removed because their time was over.")
        self.reactions = self._counter("reactions", "Reactions set or taken away.")
        self.deliveries = self._counter("deliveries", "Entries written to sockets of recipients.")
        self.keyspace_commands = self._counter("keyspace_commands", "Commands sent to the keyspace.")
        self.mentions = self._counter("mentions", "Members whom messages mentioned.")
        self.search_seconds = self._tally("search_seconds", "Time of a search for messages.", SECONDS)
        self.rows_read = self._labelled("table_rows_read", "Rows read, by table.", "table", TABLES)
        self.writes = self._labelled("table_writes", "Rows written, by table.", "table", TABLES)
        self.table_units = self._labelled(
            "table_units", "Capacity units that DynamoDB counted, by kind.", "kind", ("read", "write")
        )
        self.rate_limited = self._labelled("rate_limited", "Requests refused, by limiter class.", "class", REFUSED)
        self.files_bytes = self._labelled("files_bytes", "Bytes of files, by direction.", "direction", ("in", "out"))
        self.rebuilds = self._labelled("rebuilds", "Index parts rebuilt from the tables.", "what", REBUILT)
        self.repairs = self._labelled("repairs", "What was found wrong and put right.", "what", REPAIRS)
        self.push: Children[tuple[str, str], Count] = self._counters(
            "push", "Pushes, by provider and outcome.", ["provider", "outcome"], known=()
        )
        self.webhooks = self._labelled("webhook", "Requests to webhooks, by outcome.", "outcome", WEBHOOK_OUTCOMES)
        self.before_send = self._labelled(
            "before_send", "Messages that the before-send hook was asked about.", "verdict", BEFORE_SEND_VERDICTS
        )
        self.webhook_lag = Gauge(
            "tidings_webhook_lag_seconds",
            "Age of the oldest entry that a webhook does not have.",
            ["webhook"],
            registry=registry,
        )
        self.archive = self._archive()
        self.send_seconds = self._tally("send_seconds", "From a send's frame to its acknowledgement.", SECONDS)
        self.batch_size = self._tally("batch_size", "Entries in a batch of a lane.", SIZES)
        self.stage_seconds = self._stages()

    def show_lag(self, stream: str, entries: int) -> None:
        self.stream_lag.labels(stream).set(entries)

    def show_webhook_lag(self, webhook_id: str, seconds: float | None) -> None:
        """None: the webhook is gone."""
        if seconds is None:
            self.webhook_lag.remove(webhook_id)
        else:
            self.webhook_lag.labels(webhook_id).set(seconds)

    def count_rows_read(self, table: str, rows: int) -> None:
        self.rows_read[table].inc(rows)

    def count_writes(self, table: str, rows: int) -> None:
        self.writes[table].inc(rows)

    def count_repair(self, what: str, n: int) -> None:
        self.repairs[what].inc(n)

    def count_rebuild(self, what: str) -> None:
        self.rebuilds[what].inc()

    def count_rebuilt_threads(self, what: str) -> None:
        """All that is rebuilt of the index of threads counts as one."""
        self.rebuilds["threads"].inc()

    def render(self) -> bytes:
        """The text of `/metrics`."""
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str) -> Count:
        return self._counters(name, about)[""]

    def _labelled(self, name: str, about: str, label: str, known: Iterable[str]) -> Children[str, Count]:
        return self._counters(name, about, [label], known)

    def _counters(
        self, name: str, about: str, labels: Sequence[str] = (), known: Iterable[Any] = ("",)
    ) -> Children[Any, Count]:
        family = Counter(f"tidings_{name}", about, labels, known)
        self.registry.register(family)
        return family.series

    def _archive(self) -> dict[str, Count]:
        """The counters of the cold tier, by the names that it uses."""
        failures = self._labelled("archive_failures", "What went wrong in the cold tier.", "what", ARCHIVE_FAILURES)
        reads = self._labelled("archive_reads", "Segments that readers needed, by source.", "source", ARCHIVE_SOURCES)
        return {
            "messages": self._counter("archive_messages", "Messages whose text moved to blobs."),
            "segments": self._counter("archive_segments", "Segments written and verified."),
            "bytes": self._counter("archive_bytes", "Bytes of these segments."),
            "rewrites": self._counter("archive_rewrites", "Segments written again without texts that are gone."),
            "deletions": self._counter("archive_deletions", "Objects deleted because nothing refers to them."),
            **{what: failures[what] for what in ARCHIVE_FAILURES},
            "reads": reads["blobs"],
            "cache_hits": reads["cache"],
        }

    def _tally(self, name: str, about: str, bounds: Sequence[float]) -> Tally:
        histogram = Histogram(f"tidings_{name}", about, bounds)
        self.registry.register(histogram)
        return histogram.series[""]

    def _stages(self) -> Children[str, Tally]:
        histogram = Histogram(
            "tidings_stage_seconds", "Time of a batch in each stage.", SECONDS, "stage", (*STAGES, "review")
        )
        self.registry.register(histogram)
        return histogram.series
