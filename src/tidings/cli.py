"""The `tidings` command: which verbs there are, how their words are read, and how a mistake is answered.

A verb is one row of `VERBS`; what it does is imported when it runs, so that `--help` is instant. Every setting of
config.py is a flag of every verb. A user's mistake is one line on stderr and exit code 2, the world's trouble one line
and 1; a traceback means a defect of ours. The only module that prints.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

from tidings import __version__, cli_archive, cli_doctor, cli_key, cli_limits, cli_restore, cli_top, cli_torture, config
from tidings.cli_bench import VERBS as BENCH_VERBS
from tidings.cli_verb import Verb, checked, load, print_json, print_report
from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_secret import to_serve, to_sign
from tidings.config_values import SettingsError, duration_s, nearest, safe_id
from tidings.errors import Problem, StoreError

CONFIG_WIDTH = 34  # column of the values in `tidings config`


def main(argv: Sequence[str] | None = None) -> int:
    """The process's exit code: 0 done, 1 the world said no, 2 the words were wrong."""
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except SettingsError as error:
        return _complain(error, 2)
    except BrokenPipeError:  # the reader of our output went away, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (StoreError, Problem, OSError) as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return 1
    except RuntimeError as error:
        if not _is_data_in_use(error):
            raise
        return _complain(error, 1)


def _complain(error: Exception, code: int) -> int:
    print("tidings: " + " ".join(_said(error).split()), file=sys.stderr)
    return code


def _said(error: Exception) -> str:
    """Without the number that the system gives it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _is_data_in_use(error: RuntimeError) -> bool:
    from tidings.stores.keyspace_folder import DataInUse

    return isinstance(error, DataInUse)


# --- reading the words ----------------------------------------------------------------------------


def _dispatch(words: list[str]) -> int:
    if words[:1] in ([], ["help"], ["-h"], ["--help"]):
        print(_usage(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if (family := _family(words[0])) and words[1:] in (["-h"], ["--help"], ["help"]):
        print(f"{_rows(family)}\n\n`tidings VERB --help` lists a verb's flags.")
        return 0
    if words[0] == "--version":
        words[0] = "version"
    name = _verb_name(words)
    arguments = _parse(name, words[len(name.split()) :])
    return VERBS[name].run(arguments)


def _verb_name(words: list[str]) -> str:
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in VERBS:
            return name
    if family := _family(words[0]):
        given = words[1] if words[1:] and not words[1].startswith("-") else None
        if given is None:
            raise SettingsError(f"`tidings {words[0]}` needs one more word: {' or '.join(family)}")
        near = nearest(given, [name.split()[1] for name in family])
        raise SettingsError(f"unknown word {given!r} after `tidings {words[0]}`{near}; there is {', '.join(family)}")
    first_words = {name.split()[0] for name in VERBS}
    raise SettingsError(f"unknown command {words[0]!r}{nearest(words[0], first_words)}; `tidings --help` lists them")


def _family(word: str) -> list[str]:
    """The verbs of two words that begin with this one."""
    return [name for name in VERBS if name.split()[0] == word != name]


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports a mistake instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _parse(name: str, words: list[str]) -> argparse.Namespace:
    verb = VERBS[name]
    parser = _Parser(usage=f"tidings {name} [flags]", description=verb.about, allow_abbrev=False)
    verb.arguments(parser)
    if verb.has_json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(parser)
    arguments, rest = parser.parse_known_args(words)
    if rest:
        flag = rest[0].partition("=")[0]
        known = [option for option in parser._option_string_actions if option.startswith("--")]
        raise SettingsError(f"unknown flag or word {flag!r} for `tidings {name}`{nearest(flag, known)}")
    return arguments


def _add_settings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings", "a flag wins over the environment, that over tidings.toml")
    group.add_argument(
        "--config", metavar="FILE", help=f"read this file instead of ./tidings.toml [{config.CONFIG_ENV}]"
    )
    defaults = Settings()
    for row in config.rows():
        name = f"set:{row.path}"
        if row.has("is_flag_only"):
            group.add_argument(row.flag, dest=name, action="store_const", const="true", help=row.about)
            continue
        shown = config.shown(row, defaults) if row.path != "node.id" else "random"
        default = f" (default {shown})" if shown not in (None, "") else ""
        metavar = row.path.rpartition(".")[2].upper()
        group.add_argument(row.flag, dest=name, metavar=metavar, help=f"{row.about}{default} [{row.variable}]")


def _usage() -> str:
    return (
        f"Tidings {__version__}: a messaging backend that a team runs itself.\n\n{_rows(VERBS)}\n\n"
        "To try it: tidings serve --dev\n"
        "`tidings VERB --help` lists a verb's flags; `tidings config` shows the settings that hold."
    )


def _rows(names: Collection[str]) -> str:
    width = max(map(len, names)) + 2
    return "\n".join(f"  tidings {name:<{width}} {VERBS[name].about}" for name in names)


# --- the verbs ------------------------------------------------------------------------------------


def _serve(arguments: argparse.Namespace) -> int:
    loaded = load(arguments)
    settings = to_serve(loaded.settings)
    from tidings import node, telemetry

    telemetry.configure_logs(settings.log.format, settings.log.level)
    return node.serve(settings, lambda port: print(banner(settings, port), flush=True), loaded.sources)


def banner(settings: Settings, port: int) -> str:
    """What an operator sees once the node listens."""
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
    """What a verb needs to find the same folder from here."""
    return "" if settings.data == Path.cwd() / Settings().data else f" --data {shlex.quote(str(settings.data))}"


def _dev_lines(url: str) -> list[str]:
    body = """-H 'Content-Type: application/json' -d '{"user_id":"alice"}'"""
    return [
        "",
        "  --dev: SIGN-IN IS OPEN. Anyone on this machine can become any user; loopback only. Not for production.",
        f"  a token   curl -s -X POST {url}/v1/dev/token {body}",
    ]


def _config(arguments: argparse.Namespace) -> int:
    loaded = load(arguments)
    settings = loaded.settings
    table = {row.path: (config.shown(row, settings), loaded.sources[row.path]) for row in config.rows()}
    if arguments.json:
        print_json({path: {"value": value, "source": source} for path, (value, source) in table.items()})
        return 0
    for path, (value, source) in table.items():
        text = "-" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)
        print(f"{path:<18} {text:<{CONFIG_WIDTH}} {source}")
    return 0


def _token_create(arguments: argparse.Namespace) -> int:
    from tidings.gateway.auth import AuthSettings

    auth = AuthSettings(**dataclasses.asdict(to_sign(load(arguments).settings).auth))
    user_id = checked("--user", safe_id, arguments.user)
    now_ms = Clock().now_ms()
    ttl_s = checked("--ttl", duration_s, arguments.ttl)
    token = auth.mint(user_id, ttl_s=ttl_s, now_ms=now_ms)
    if arguments.json:
        print_json({"token": token, "user_id": user_id, "expires_at": (now_ms // 1000 + ttl_s) * 1000})
    else:
        print(token)
    return 0


def _unread(arguments: argparse.Namespace, *, repair: bool) -> int:
    from tidings import node

    user_id = None if arguments.user is None else checked("--user", safe_id, arguments.user)
    report = node.verify_unread(load(arguments).settings, user_id, repair)
    print_report(report, arguments.json)
    return 0 if repair or not report.wrong else 1


def _tables(arguments: argparse.Namespace, *, create: bool) -> int:
    from tidings import node

    report = node.check_tables(load(arguments).settings, create)
    print_report(report, arguments.json)
    return 0 if report.is_ok else 1


def _version(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json({"version": __version__, "python": sys.version.split()[0]})
    else:
        print(f"tidings {__version__}")
    return 0


def _token_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the user id: the token's `sub`")
    parser.add_argument("--ttl", default="1h", help="how long it is valid: 90s, 15m, 1h, 30d (default 1h)")


def _user_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", help="this user only (default: every user)")


VERBS: dict[str, Verb] = {
    "serve": Verb("start a node and print its URLs", _serve, has_json=False),
    "config": Verb("print every setting and where it came from", _config),
    "token create": Verb("make a user token, signed with auth.secret", _token_create, _token_arguments),
    **cli_key.VERBS,
    "unread verify": Verb(
        "recompute unread from the tables and compare",
        lambda a: _unread(a, repair=False),
        _user_argument,
    ),
    "unread repair": Verb("the same, and put right what differs", lambda a: _unread(a, repair=True), _user_argument),
    "tables create": Verb("create the tables if need be", lambda a: _tables(a, create=True)),
    "tables check": Verb("open the tables and report their version", lambda a: _tables(a, create=False)),
    "version": Verb("print the version", _version),
}
VERBS |= cli_doctor.VERBS | cli_top.VERBS
VERBS |= cli_limits.VERBS
VERBS |= cli_restore.VERBS
VERBS |= cli_archive.VERBS
VERBS |= BENCH_VERBS
VERBS |= cli_torture.VERBS
