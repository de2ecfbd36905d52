"""Logs: one line per event on stderr, JSON for machines or a console form for people.

Every line has the event, its fields (`extra={...}` of standard logging), the logger's name, the level, the time and the
node's id. No line carries the text of a message, a token or a secret: `redact` removes these fields from every event.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

SECRET_WORDS = frozenset(("text", "content", "token", "secret", "password", "authorization", "preview", "api_key"))
Event = MutableMapping[str, Any]


def configure_logs(format: str, level: str, node_id: str) -> None:
    """Set up the root logger. The format `auto` means the console form on a terminal and JSON elsewhere."""
    is_console = format == "console" or (format == "auto" and sys.stderr.isatty())

    def add_node(logger: Any, method: str, event: Event) -> Event:
        event["node"] = node_id
        return event

    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_node,
        redact,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_renderers(is_console))
    )
    root = logging.getLogger()
    root.handlers[:] = [output]
    root.setLevel(level.upper())
    _quiet_libraries(level)


def redact(logger: Any, method: str, event: Event) -> Event:
    """Replace the value of every field that is named like a secret."""
    for name in event.keys() & SECRET_WORDS:
        event[name] = "[redacted]"
    return event


def _renderers(is_console: bool) -> list[Any]:
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if is_console:
        return [without_meta, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [without_meta, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _quiet_libraries(level: str) -> None:
    """Silence lines that carry secrets: access lines show a token in a query, debug lines the bytes of a request."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name != "uvicorn.access"
    for name in ("httpx2", "httpcore2", "picows"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()]))
