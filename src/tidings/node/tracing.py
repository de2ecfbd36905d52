"""OpenTelemetry traces of the send path: one trace for a batch, one span for each of its stages.

Tracing takes the place of the pipeline's measures: a batch, its stages and its sends become spans. So the pipeline does
not know of tracing. Without `otel.endpoint` the measures are the metrics themselves, and tracing adds nothing. One
batch in `otel.every` is traced, by counting. A span holds sizes and times, never an id or a text. graph.py opens and
closes it; at the close the waiting spans are sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidings import __version__
from tidings.bounds import OTEL_CLOSE_S, OTEL_EXPORT_S, OTEL_SENDS_MAX
from tidings.clock import Clock
from tidings.config.settings import Otel
from tidings.config.values import SettingsError
from tidings.messaging.send.batch import Counted, Measures, Observed

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer


class Tracing:
    """The measures to hand to the pipeline, and how to stop."""

    def __init__(self, measures: Measures, provider: TracerProvider | None = None) -> None:
        self.measures = measures
        self._provider = provider

    async def close(self) -> None:
        """Sends what waits, for OTEL_CLOSE_S at most: a collector that is down must not hold up a drain."""
        if self._provider is None:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        shutdown = self._provider.shutdown

        def work() -> None:
            shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=work, name="otel-shutdown", daemon=True).start()
        try:
            async with asyncio.timeout(OTEL_CLOSE_S):
                await done.wait()
        except TimeoutError:
            pass  # what the collector did not take is lost: it is only a trace


def open_tracing(settings: Otel, measures: Measures, clock: Clock, node_id: str) -> Tracing:
    """Raises SettingsError when the endpoint is set and the extra is not installed."""
    if settings.endpoint is None:
        return Tracing(measures)
    try:
        provider = _provider(settings.endpoint, node_id)
    except ImportError as error:
        raise SettingsError(f"otel.endpoint needs pip install '.[otel]' in the clone ({error})") from None
    batches = Batches(provider.get_tracer("tidings", __version__), clock, settings.every)
    return Tracing(TracedMeasures(measures, batches), provider)


def _provider(endpoint: str, node_id: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    who = {"service.name": "tidings", "service.version": __version__, "service.instance.id": node_id}
    provider = TracerProvider(resource=Resource.create(who), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=OTEL_EXPORT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def traces_url(endpoint: str) -> str:
    """A collector's address; without a path it is OTLP's usual one."""
    bare = endpoint.rstrip("/")
    return bare if urlsplit(bare).path else f"{bare}/v1/traces"


class Batch:
    """A traced batch: its root span, open until it is acknowledged."""

    __slots__ = ("_began_ns", "_began_s", "context", "is_open", "sends", "span")

    def __init__(self, span: Span, context: Context, began_ns: int, began_s: float) -> None:
        self.span = span
        self.context = context
        self.is_open = True
        self.sends = 0
        self._began_ns = began_ns
        self._began_s = began_s

    def at_ns(self, now_s: float) -> int:
        return self._began_ns + int((now_s - self._began_s) * 1e9)


class Batches:
    """Turns what is measured into spans. A lane has one batch at a time in its task, so the task names the batch."""

    def __init__(self, tracer: Tracer, clock: Clock, every: int) -> None:
        self._tracer = tracer
        self._clock = clock
        self._every = every
        self._count = 0
        self._of_task: dict[asyncio.Task[object], Batch | None] = {}

    def begin(self, size: float) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        if self._of_task.get(task) is not None:
            self._abandon(task)
        self._count += 1
        if self._count % self._every:
            return
        if task not in self._of_task:
            task.add_done_callback(self._forget)
        self._of_task[task] = self._open(size)

    def _open(self, size: float) -> Batch:
        from opentelemetry.trace import set_span_in_context

        began_ns = self._clock.now_ms() * 1_000_000
        span = self._tracer.start_span("batch", start_time=began_ns, attributes={"tidings.batch.size": int(size)})
        return Batch(span, set_span_in_context(span), began_ns, self._clock.monotonic_s())

    def stage(self, name: str, took_s: float) -> None:
        batch = self._current()
        if batch is None:
            return
        end_ns = batch.at_ns(self._clock.monotonic_s())
        span = self._tracer.start_span(name, context=batch.context, start_time=end_ns - int(took_s * 1e9))
        span.end(end_ns)
        if name == "acknowledge":
            batch.span.end(end_ns)
            batch.is_open = False

    def sent(self, took_s: float) -> None:
        """A message's own way, from its frame to its acknowledgement; linked to the batch that carried it."""
        batch = self._current()
        if batch is None or batch.sends >= OTEL_SENDS_MAX:
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import Link

        batch.sends += 1
        end_ns = batch.at_ns(self._clock.monotonic_s())
        links = [Link(batch.span.get_span_context())]
        span = self._tracer.start_span("send", context=Context(), links=links, start_time=end_ns - int(took_s * 1e9))
        span.end(end_ns)

    def _current(self) -> Batch | None:
        task = asyncio.current_task() if self._of_task else None
        return self._of_task.get(task) if task is not None else None

    def _abandon(self, task: asyncio.Task[object]) -> None:
        """End the trace of the batch. A batch without an acknowledgement was refused, and its trace says so."""
        batch = self._of_task[task]
        if batch is not None and batch.is_open:
            from opentelemetry.trace import StatusCode

            batch.span.set_status(StatusCode.ERROR, "not acknowledged")
            batch.span.end(batch.at_ns(self._clock.monotonic_s()))
        self._of_task[task] = None

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._abandon(task)
        del self._of_task[task]


class ObservedTwice:
    """A measure of the metrics whose values also go to the traces."""

    def __init__(self, measured: Observed, trace: Callable[[float], None]) -> None:
        self._measured = measured
        self._trace = trace

    def observe(self, value: float) -> None:
        self._measured.observe(value)
        self._trace(value)


class TracedMeasures:
    """The measures of the pipeline, for the metrics and for the traces."""

    def __init__(self, measures: Measures, batches: Batches) -> None:
        self.messages: Counted = measures.messages
        self.batch_size: Observed = ObservedTwice(measures.batch_size, batches.begin)
        self.send_seconds: Observed = ObservedTwice(measures.send_seconds, batches.sent)
        self.stage_seconds: Mapping[str, Observed] = {
            name: ObservedTwice(measured, partial(batches.stage, name))
            for name, measured in measures.stage_seconds.items()
        }
