"""`tidings serve`: start a node, or a supervisor with several, and print the URLs once they listen."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from tidings import __version__
from tidings.cli.verb import Verb, load
from tidings.config.secret import to_serve
from tidings.config.settings import Loaded, Settings


def _serve(arguments: argparse.Namespace) -> int:
    loaded = _read(arguments)
    settings = loaded.settings
    from tidings.telemetry.logs import configure_logs

    configure_logs(settings.log.format, settings.log.level, settings.node.id)
    if settings.workers > 1:
        from tidings.node.supervisor.supervisor import supervise

        return supervise(loaded, lambda: _read(arguments), _announce)
    from tidings.node import node

    return node.serve(settings, lambda port: _announce(settings, port), loaded.sources)


def _read(arguments: argparse.Namespace) -> Loaded:
    loaded = load(arguments)
    return Loaded(to_serve(loaded.settings, loaded.sources), loaded.sources)


def _announce(settings: Settings, port: int) -> None:
    print(banner(settings, port), flush=True)


def banner(settings: Settings, port: int) -> str:
    """The addresses of a node that listens, for the operator."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{'http' if settings.tls.cert is None else 'https'}://{host}:{port}"
    lines = [
        f"Tidings {__version__} listens on {url}",
        f"  page      {url}/",
        f"  API       {url}/docs   {url}/openapi.json",
        f"  admin     {url}/admin   (a key: {_command()} key create --name ops{_data_flag(settings)})",
        f"  metrics   {url}/metrics",
        f"  health    {url}/healthz   {url}/readyz",
        f"  data      {settings.data}",
        *([f"  workers   {settings.workers}"] if settings.workers > 1 else []),
    ]
    return "\n".join(lines + (_dev_lines(settings, url) if settings.dev else []))


def _command() -> str:
    """The command as this shell can call it: an environment that is not active is named with its folder."""
    program = Path(sys.argv[0])
    if program.name != "tidings" or shutil.which("tidings") == str(program.absolute()):
        return "tidings"
    with suppress(ValueError):
        program = program.absolute().relative_to(Path.cwd())
    return shlex.quote(str(program))


def _data_flag(settings: Settings) -> str:
    """The flag with which another verb finds the same folder from here."""
    return "" if settings.data == Path.cwd() / Settings().data else f" --data {shlex.quote(str(settings.data))}"


def _dev_lines(settings: Settings, url: str) -> list[str]:
    from tidings.node.dev import admin_key

    body = """-H 'Content-Type: application/json' -d '{"user_id":"alice"}'"""
    return [
        "",
        "  --dev: SIGN-IN IS OPEN. Anyone on this machine can become any user; loopback only. Not for production.",
        f"  two people  {url}/?as=alice   {url}/?as=bob   (in two windows)",
        f"  operator    {url}/admin#key={admin_key(settings)}",
        f"  a token     curl -s -X POST {url}/v1/dev/token {body}",
        f"  commands    {_command()} --help",
    ]


VERBS: dict[str, Verb] = {
    "serve": Verb("start a node, or several with --workers, and print its URLs", _serve, has_json=False),
}
