"""URL schemes of the tables: one row for each adapter, without importing any of them.

An adapter is a folder beside this file and one row in SCHEMES. The settings check a URL by its row, so that a mistake
is reported before anything is opened; open.py imports the adapter itself when its tables are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

DEFAULT = "sqlite"  # as the whole setting: a file in the data folder


class Parameter(NamedTuple):
    """One parameter of a URL: a pattern of the whole value, and what is said of a value that does not fit."""

    pattern: str
    hint: str


class Scheme(NamedTuple):
    adapter: str  # its module, as open.py imports it
    example: str
    place: str  # a pattern of what stands between :// and ?
    place_hint: str
    parameters: Mapping[str, Parameter] = {}
    extra: str = ""  # the extra to install, where it needs libraries that a node does not
    is_shared: bool = False  # nodes on several hosts can use the same tables


SCHEMES: dict[str, Scheme] = {
    "sqlite": Scheme(
        adapter="tidings.stores.tables.sqlite.adapter",
        example="sqlite:///path",
        place="/.*",
        place_hint="has no absolute path; write three slashes: sqlite:///path",
    ),
    "postgresql": Scheme(
        adapter="tidings.stores.tables.postgres.adapter",
        example="postgresql://user@host/database",
        place=r"[^\s?#]*/[^\s?#/]+",
        place_hint="names no database; write postgresql://user@host/database, and parameters after ?",
        parameters={
            "schema": Parameter(r"[a-z_][a-z0-9_]{0,62}", "may hold only a-z 0-9 _, 63 at most"),
            "links": Parameter(r"0*([2-9]|[1-9]\d{1,2})", "is not a whole number from 2 to 999"),
            "prepared": Parameter("on|off", "is neither on nor off"),
            "host": Parameter(r"[^\s]+", "is neither a host nor the folder of a socket"),
            "port": Parameter(r"\d{1,5}", "is not a port"),
            "sslmode": Parameter("disable|allow|prefer|require|verify-ca|verify-full", "is no mode of TLS"),
            "sslrootcert": Parameter(r"/.+", "is not the absolute path of a file"),
            "sslcert": Parameter(r"/.+", "is not the absolute path of a file"),
            "sslkey": Parameter(r"/.+", "is not the absolute path of a file"),
        },
        extra="postgresql",
        is_shared=True,
    ),
    "dynamodb": Scheme(
        adapter="tidings.stores.tables.dynamodb.adapter",
        example="dynamodb://region",
        place="[a-z0-9-]+/?",
        place_hint="names no region; write dynamodb://eu-west-1, and parameters after ?",
        parameters={
            "prefix": Parameter(r"[A-Za-z0-9_.-]{0,64}", "may hold only A-Z a-z 0-9 _ . -, 64 at most"),
            "dedupe": Parameter("transaction", "is gone: a transaction stores every message; remove dedupe"),
            "links": Parameter(r"0*([2-9]|[1-9]\d{1,2})", "is not a whole number from 2 to 999"),
            "endpoint": Parameter(r"https?://[^/?#@\s]+/?", "is not an http:// or https:// address"),
        },
        extra="dynamodb",
        is_shared=True,
    ),
}


def scheme_of(setting: str) -> Scheme:
    """The row of a setting that was checked: a URL, or the word DEFAULT."""
    return SCHEMES[setting.partition("://")[0]]


def url_of(setting: str, data: Path) -> str:
    """The URL of the tables: the setting itself, or the file of the data folder."""
    return f"{DEFAULT}://{data / 'tidings.db'}" if setting == DEFAULT else setting


def examples(*, are_shared: bool = False) -> str:
    """The forms of the setting, for help: `sqlite, sqlite:///path or dynamodb://region`."""
    forms = [scheme.example for scheme in SCHEMES.values() if scheme.is_shared or not are_shared]
    words = forms if are_shared else [DEFAULT, *forms]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
