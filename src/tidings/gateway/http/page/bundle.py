"""The page as two scripts and one style sheet, made of its ES modules when a node starts.

A browser that loads a module per request waits for each of them. The node therefore joins the modules into one script:
each module becomes a function that returns its exports, in the order of the imports. Modules that are reached only by
`import('./name.js')` are joined into a second script, which a browser loads when the first of them is needed. It uses
the modules of the first script, so no module runs twice. The modules stay as they are on the disk, so no build step is
needed, and `/web/index.html` still loads them one by one for a developer. The rules are small because the modules keep
them: imports are named, exports are declarations, and there are no cycles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_IMPORT = re.compile(r"^import\s*\{([^}]*)\}\s*from\s*'([^']+)';\n?", re.MULTILINE)
_LATER = re.compile(r"\bimport\('(\.[^']+)'\)")
_AGAIN = re.compile(r"^export\s*\{([^}]*)\}\s*from\s*'([^']+)';\n?", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const|let) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*\*?[\s\S]*?\*/)[ \t]*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+|[ \t]+//[ ][^\n'\"`]*$", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b", re.MULTILINE)
_CSS_COMMENT = re.compile(r"/\*[\s\S]*?\*/")
_CSS_SPACE = re.compile(r"\s*\n\s*")


class CannotBundle(Exception):
    """A module breaks a rule of the bundle."""


class Bundle(msgspec.Struct, frozen=True):
    """The two scripts. `FIRST` and `LATER` in them stand for their addresses, which the caller knows."""

    first: str
    later: str  # empty where nothing waits


FIRST, LATER = "{the first script}", "{the later script}"


def bundle(sources: Mapping[str, str], start: str) -> Bundle:
    """The scripts of the module `start` and of all that it imports. `sources` has every module by its path."""
    order: list[str] = []
    _visit(sources, start, order, ())
    count = len(order)
    for path in order:  # it grows: a module of the second script may name others
        for found in _LATER.finditer(sources[path]):
            _visit(sources, _resolved(path, found[1]), order, ())
    numbers = {path: number for number, path in enumerate(order)}
    modules = [_wrapped(path, sources[path], numbers) for path in order]
    first, later = "".join(modules[:count]), "".join(modules[count:])
    if not later:
        return Bundle(f"'use strict';\n{first}", "")
    used = sorted({int(name) for name in re.findall(r"\bm(\d+)\b", later) if int(name) < count})
    shared = ", ".join(f"m{number}" for number in used)
    all_later = ", ".join(f"m{number}" for number in range(count, len(order)))
    return Bundle(
        f"'use strict';\n{first}export {{ {shared} }};\n",
        f"'use strict';\nimport {{ {shared} }} from '{FIRST}';\n{later}export {{ {all_later} }};\n",
    )


def join_styles(sheets: list[str]) -> str:
    return "".join(_CSS_SPACE.sub("\n", _CSS_COMMENT.sub("", sheet)) for sheet in sheets)


def _visit(sources: Mapping[str, str], path: str, order: list[str], way: tuple[str, ...]) -> None:
    """Put the imports of a module before it."""
    if path in way:
        raise CannotBundle(f"modules import each other: {' -> '.join((*way, path))}")
    if path not in sources:
        raise CannotBundle(f"{way[-1] if way else 'nobody'} imports {path}, which does not exist")
    if path in order:
        return
    text = sources[path]
    for found in (*_IMPORT.finditer(text), *_AGAIN.finditer(text)):
        _visit(sources, _resolved(path, found[2]), order, (*way, path))
    order.append(path)


def _resolved(path: str, name: str) -> str:
    if name.startswith("/"):
        return name
    parts = path.split("/")[:-1]
    for step in name.split("/"):
        if step == "..":
            parts.pop()
        elif step != ".":
            parts.append(step)
    return "/".join(parts)


def _wrapped(path: str, text: str, numbers: Mapping[str, int]) -> str:
    """A module as a function that returns its exports."""
    exported: list[str] = []

    def imported(found: re.Match[str]) -> str:
        names = ", ".join(_renamed(one, ": ") for one in _names(found[1]))
        return f"const {{ {names} }} = m{numbers[_resolved(path, found[2])]};\n"

    def again(found: re.Match[str]) -> str:
        source = numbers[_resolved(path, found[2])]
        for one in _names(found[1]):
            name, _, alias = one.partition(" as ")
            exported.append(f"{alias or name}: m{source}.{name}")
        return ""

    def declared(found: re.Match[str]) -> str:
        exported.append(found[2])
        return f"{found[1]} {found[2]}"

    def awaited(found: re.Match[str]) -> str:
        return f"import('{LATER}').then((all) => all.m{numbers[_resolved(path, found[1])]})"

    body = _EXPORT.sub(declared, _AGAIN.sub(again, _IMPORT.sub(imported, _LATER.sub(awaited, text))))
    if _LEFT_OVER.search(body):
        raise CannotBundle(f"{path} has an import or export of another form")
    lean = _INDENT.sub("", _COMMENT.sub("", body))
    return f"const m{numbers[path]} = (() => {{\n{lean}return {{ {', '.join(exported)} }};\n}})();\n"


def _names(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split(",") if one.strip()]


def _renamed(name: str, between: str) -> str:
    return name.replace(" as ", between)
