"""The `tidings` command: it reads the words, runs one verb, and answers a mistake with one line.

A verb is one row of `VERBS`. A verb imports its work when it runs, so that `--help` is instant. Every setting is a flag
of every verb. A mistake of the user is one line on stderr and exit code 2; trouble of a store or the system is one line
and exit code 1. A traceback means a defect of Tidings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from importlib.metadata import entry_points
from typing import NoReturn

from tidings import __version__
from tidings.cli import archive, audit, config, doctor, indexes, key, limits, serve, tables, token, top, user, webhook
from tidings.cli.verb import Verb, show
from tidings.config import settings
from tidings.config.values import SettingsError, nearest
from tidings.errors import Problem, StoreError, Unavailable

PROOF_VERBS = (
    "bench",
    "torture",
)  # in a package of their own, because code that injects faults is not part of the server

_WITH_ALL_SETTINGS = ("serve", "config")  # the verbs whose help shows the flags of all settings
_SETTINGS_OF_STORES = ("data", "keyspace", "tables", "blobs", "dev")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The exit code is 0 for success, 1 for trouble outside Tidings, 2 for wrong words."""
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except SettingsError as error:
        return _complain(error, 2)
    except BrokenPipeError:  # the reader of the output closed it
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
    print("tidings: " + " ".join(_text_of(error).split()), file=sys.stderr)
    return code


def _text_of(error: Exception) -> str:
    """The text of the error, without the number of the system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, Unavailable):
        return f"{error}; `tidings doctor`, with the same settings, says what to check"
    return str(error)


def _is_data_in_use(error: RuntimeError) -> bool:
    from tidings.stores.keyspace.embedded_folder import DataInUse

    return isinstance(error, DataInUse)


# --- reading the words ----------------------------------------------------------------------------


def _dispatch(words: list[str]) -> int:
    if words[:1] in ([], ["help"], ["-h"], ["--help"]):
        print(_usage(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if (family := _family(words[0])) and words[1:] in (["-h"], ["--help"], ["help"]):
        print(f"{_rows(family)}\n\n`tidings VERB --help` lists the flags of a verb.")
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
            raise SettingsError(
                f"`tidings {words[0]}` needs a second word; write {' or '.join(f'`tidings {name}`' for name in family)}"
            )
        near = nearest(given, [name.split()[1] for name in family])
        raise SettingsError(
            f"unknown word {given!r} after `tidings {words[0]}`{near}; the verbs are {', '.join(family)}"
        )
    if words[0] in PROOF_VERBS:
        raise SettingsError(f"`tidings {words[0]}` is part of another package: pip install tidings-proof")
    first_words = {name.split()[0] for name in VERBS}
    raise SettingsError(
        f"unknown command {words[0]!r}{nearest(words[0], first_words)}; `tidings --help` lists the commands"
    )


def _family(word: str) -> list[str]:
    """The verbs of two words that begin with this one."""
    return [name for name in VERBS if name.split()[0] == word != name]


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises a mistake instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _parse(name: str, words: list[str]) -> argparse.Namespace:
    verb = VERBS[name]
    parser = _Parser(usage=f"tidings {name} [flags]", description=verb.about, allow_abbrev=False)
    verb.arguments(parser)
    if verb.has_json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(parser, is_whole=name in _WITH_ALL_SETTINGS)
    arguments, rest = parser.parse_known_args(words)
    if rest:
        flag = rest[0].partition("=")[0]
        known = [option for option in parser._option_string_actions if option.startswith("--")]
        raise SettingsError(f"unknown flag or word {flag!r} for `tidings {name}`{nearest(flag, known)}")
    return arguments


def _add_settings(parser: argparse.ArgumentParser, *, is_whole: bool) -> None:
    """Every verb takes the flags of all settings. The help of most verbs shows only those that name the stores."""
    more = "" if is_whole else "; `tidings serve --help` has the flags of all settings, and this verb takes them too"
    group = parser.add_argument_group(
        "settings", f"a flag wins over the environment, and the environment wins over tidings.toml{more}"
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        help=f"read settings from this file instead of ./tidings.toml [{settings.CONFIG_ENV}]",
    )
    defaults = settings.Settings()
    for row in settings.rows():
        name = f"set:{row.path}"
        is_shown = is_whole or row.path in _SETTINGS_OF_STORES
        if row.has("is_flag_only"):
            about = row.about if is_shown else argparse.SUPPRESS
            group.add_argument(row.flag, dest=name, action="store_const", const="true", help=about)
            continue
        shown = settings.shown(row, defaults) if row.path != "node.id" else "random"
        word = str(shown).lower() if isinstance(shown, bool) else shown
        default = f" (default {word})" if shown not in (None, "") else ""
        metavar = row.path.rpartition(".")[2].upper()
        about = f"{row.about}{default} [{row.variable}]" if is_shown else argparse.SUPPRESS
        group.add_argument(row.flag, dest=name, metavar=metavar, help=about)


def _usage() -> str:
    return (
        f"Tidings {__version__}: a messaging backend that a team runs itself.\n\n{_rows(OWN_VERBS)}\n\n{_added()}"
        "To try it: tidings serve --dev\n"
        "`tidings VERB --help` lists the flags of a verb; `tidings config` shows every setting."
    )


def _added() -> str:
    """The verbs of other distributions, a line for each first word: they are many, and few people need them."""
    words = list(dict.fromkeys(name.split()[0] for name in VERBS if name not in OWN_VERBS))
    lines = [
        f"  `tidings {word} --help` lists {len(family)} verbs" if (family := _family(word)) else _rows([word])
        for word in words
    ]
    return "\n".join(["Added by other packages:", *lines, "", ""]) if words else ""


def _rows(names: Collection[str]) -> str:
    width = max(map(len, names)) + 2
    return "\n".join(f"  tidings {name:<{width}} {VERBS[name].about}" for name in names)


# --- the verbs ------------------------------------------------------------------------------------


def _version(arguments: argparse.Namespace) -> int:
    show(arguments, {"version": __version__, "python": sys.version.split()[0]}, f"tidings {__version__}")
    return 0


VERBS: dict[str, Verb] = {}
for noun in (serve, config, token, key, indexes, tables, limits, audit, archive, webhook, user, doctor, top):
    VERBS |= noun.VERBS
VERBS["version"] = Verb("print the version", _version)
OWN_VERBS = tuple(VERBS)
for point in entry_points(group="tidings.verbs"):  # other distributions add verbs, such as tidings-proof
    VERBS |= point.load()
