"""`tidings serve`: start a node, and print its URLs once it listens."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from tidings import __version__
from tidings.cli.verb import Verb, load
from tidings.config.secret import to_serve
from tidings.config.settings import Settings


def _serve(arguments: argparse.Namespace) -> int:
    loaded = load(arguments)
    settings = to_serve(loaded.settings)
    from tidings.node import node
    from tidings.telemetry.logs import configure_logs

    configure_logs(settings.log.format, settings.log.level, settings.node.id)
    return node.serve(settings, lambda port: print(banner(settings, port), flush=True), loaded.sources)


def banner(settings: Settings, port: int) -> str:
    """The addresses of a node that listens, for the operator."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}"
    lines = [
        f"Tidings {__version__} listens on {url}",
        f"  page      {url}/",
        f"  API       {url}/docs   {url}/openapi.json",
        f"  admin     {url}/admin   (a key: tidings key create --name ops{_data_flag(settings)})",
        f"  metrics   {url}/metrics",
        f"  health    {url}/healthz   {url}/readyz",
        f"  data      {settings.data}",
    ]
    return "\n".join(lines + (_dev_lines(url) if settings.dev else []))


def _data_flag(settings: Settings) -> str:
    """The flag with which another verb finds the same folder from here."""
    return "" if settings.data == Path.cwd() / Settings().data else f" --data {shlex.quote(str(settings.data))}"


def _dev_lines(url: str) -> list[str]:
    body = """-H 'Content-Type: application/json' -d '{"user_id":"alice"}'"""
    return [
        "",
        "  --dev: SIGN-IN IS OPEN. Anyone on this machine can become any user; loopback only. Not for production.",
        f"  a token   curl -s -X POST {url}/v1/dev/token {body}",
    ]


VERBS: dict[str, Verb] = {
    "serve": Verb("start a node and print its URLs", _serve, has_json=False),
}
