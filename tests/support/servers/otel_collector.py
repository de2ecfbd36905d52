"""An OTLP collector for tests: takes traces over HTTP as the real one does, and decodes them."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """`spans`: what came so far. `is_broken`: it takes nothing."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self.is_broken = False
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._door())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def _take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.paths.add(path)
        for group in request.resource_spans:
            self.resources.append({each.key: each.value.string_value for each in group.resource.attributes})
            self.spans += [span for scope in group.scope_spans for span in scope.spans]

    def _door(self) -> type[http.server.BaseHTTPRequestHandler]:
        collector = self

        class Door(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if not collector.is_broken:
                    collector._take(self.path, body)
                self.send_response(400 if collector.is_broken else 200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        return Door


@contextmanager
def running_collector() -> Iterator[Collector]:
    collector = Collector()
    try:
        yield collector
    finally:
        collector.stop()
