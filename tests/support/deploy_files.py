"""What the files of deploy/ say, in a form that tests can hold against the program: settings, paths, words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tidings.config import settings as config
from tidings.config.values import SettingsError

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def read_yaml(name: str) -> Any:
    """One document, with its anchors and merges resolved."""
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def wrong_settings(environ: Mapping[str, str], files: frozenset[str]) -> list[str]:
    """TIDINGS_ variables that a node would refuse: unknown, malformed, or naming a file that nothing puts there."""
    known = {row.variable: row for row in config.rows() if not row.has("is_flag_only")}
    by_file = {f"{name}_FILE" for name, row in known.items() if row.has("has_file")}
    wrong = []
    for name, value in environ.items():
        if name in by_file:
            wrong += [] if value in files else [f"{name}: nothing is at {value}"]
        elif name in known:
            wrong += list(_refusal(known[name], name, value))
        elif name.startswith(config.ENV):
            wrong.append(f"{name}: no such setting")
    return wrong


def _refusal(row: config.Row, name: str, value: str) -> Iterator[str]:
    try:
        row.parse(str(value), name)
    except SettingsError as error:
        yield f"{name}: {error}"


def lock(name: str) -> dict[str, str]:
    """Package -> version, as a lock of requirements/ pins them."""
    lines = (ROOT / "requirements" / name).read_text("utf-8").splitlines()
    pins = [line.split()[0].partition("==") for line in lines if "==" in line]
    return {package: version for package, _, version in pins}
