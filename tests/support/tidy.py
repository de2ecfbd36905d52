"""The tidy law as functions: each takes text and answers what is wrong with it, so each can be shown a bad example.

test_tidy.py applies them to the whole tree.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src" / "tidings"
LEAVES = frozenset(("base64url", "cursors", "ids", "model", "pushes", "errors", "bounds", "clock", "tasks"))
# each imports only later ones
LEAF_ORDER = ("cursors", "tasks", "errors", "pushes", "model", "ids", "bounds", "clock", "base64url")
LAYERS = (
    "cli",
    "node",
    "gateway",
    "operators",
    "messaging",
    "routing",
    "stores",
)  # each may import what stands after it
BESIDE = {  # beside the way of a message: folder -> who may import it
    "config": ("cli", "node", "operators", "gateway"),
    "telemetry": ("cli", "node", "operators"),
    "protocol": ("node", "gateway"),
}
ENTRY = ("__main__", "limiter", "testing")  # what starts a node, or a part of it, for somebody else's program
BANNED_WORDS = frozenset(("manager", "handler", "service", "helper", "util", "utils", "base"))
MODULE_LINES_MAX = 400
SERVER_LINES_MAX = 61_680  # decision 22: lower it when the server got smaller, and raise it with a reason there
CORE_LINES_MAX = 9_910  # of the rooms that a message passes; likewise
FOLDER_MODULES_MAX = 15
FUNCTION_LINES_MAX = 50
FUNCTION_LINES_MEDIAN = 12
LINE_CHARS_MAX = 120
DOCSTRING_LINES_MAX = 12

_BANNED_CALLS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "os": {"urandom", "getrandom"},
    "uuid": {"uuid1", "uuid4"},
    "datetime": {"now", "utcnow", "today"},
}
_BANNED_MODULES = frozenset(("random", "secrets"))
_DOC_PATH = re.compile(r"(?<![\w/.-])((?:src|proof|clients|tests|docs|deploy|examples)/[\w./*-]+)")
_DOC_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


# --- imports --------------------------------------------------------------------------------------


def imports_of(source: str, package: str = "tidings") -> set[str]:
    """Modules of the package that the source imports, as dotted paths below it ('' is the package itself)."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.split(".")[0] == package}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add(f"{package}.a relative import")
    return {name.partition(".")[2] for name in found} - {"__version__"}


def wrong_imports(module: str, source: str) -> list[str]:
    """`module` is dotted below tidings, such as `messaging.send.pipeline`."""
    return sorted(name for name in imports_of(source) if not _may_import(module, name))


def _may_import(module: str, name: str) -> bool:
    top, other = module.split(".")[0], name.split(".")[0]
    if top in ENTRY:
        return True
    if top == "__init__":
        return other == "testing"  # the package's front door
    if top in LEAVES:
        return other in LEAF_ORDER[LEAF_ORDER.index(top) + 1 :]
    if other in LEAVES or other == top:
        return True
    if other in BESIDE:
        return top in BESIDE[other]
    if name.startswith("stores.tables.schemes"):
        return top == "config" or LAYERS.index(top) < LAYERS.index("stores")  # the settings check URLs by this table
    return top in LAYERS and other in LAYERS and LAYERS.index(other) > LAYERS.index(top)


def folder_of(module: str) -> str:
    """`messaging.send.pipeline` is in the folder `messaging.send`; a module at the root is a folder of its own."""
    return module.rpartition(".")[0] or module


def folder_cycle(imports: dict[str, set[str]]) -> list[str]:
    """A cycle between folders, or nothing. `imports`: module (a folder is its `__init__`) -> names."""
    edges: dict[str, set[str]] = {}
    for module, names in imports.items():
        home = folder_of(module)
        found = {folder_of(_module_of(name, imports)) for name in names}
        edges.setdefault(home, set()).update(found - {home, ""})
    done: set[str] = set()

    def visit(folder: str, path: list[str]) -> list[str]:
        if folder in path:
            return [*path[path.index(folder) :], folder]
        if folder in done:
            return []
        for other in sorted(edges.get(folder, ())):
            if cycle := visit(other, [*path, folder]):
                return cycle
        done.add(folder)
        return []

    return next((cycle for folder in sorted(edges) if (cycle := visit(folder, []))), [])


def _module_of(name: str, modules: Container[str]) -> str:
    """The module that a dotted name lies in: the name itself, or without its last word. A folder is its `__init__`."""
    above = name.rpartition(".")[0]
    return next((one for one in (name, f"{name}.__init__", above) if one in modules), f"{above}.__init__")


def crowded_folders(modules: Iterable[str]) -> dict[str, int]:
    """Folders with more than FOLDER_MODULES_MAX modules."""
    counts: dict[str, int] = {}
    for module in modules:
        counts[module.rpartition(".")[0]] = counts.get(module.rpartition(".")[0], 0) + 1
    return {folder: count for folder, count in counts.items() if count > FOLDER_MODULES_MAX}


def named_adapters(source: str) -> list[str]:
    """Adapters that a module imports. Adapters of the tables are chosen by URL, so no module outside them may."""
    concrete = re.compile(r"stores\.push\.(apns|fcm|webpush)")
    return sorted(name for name in imports_of(source) if concrete.match(name) or _is_table_adapter(name))


def named_tables(source: str) -> list[str]:
    """Names of table adapters in imports and in texts that are no docstrings, such as a URL scheme."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    words = [text for text in texts if isinstance(text, str) and re.match(r"(sqlite|dynamodb|postgresql)\b", text)]
    return sorted([*(name for name in imports_of(source) if _is_table_adapter(name)), *words])


def _is_table_adapter(name: str) -> bool:
    """A folder below stores.tables is an adapter."""
    parts = name.split(".")
    return parts[:2] == ["stores", "tables"] and (SRC / "/".join(parts[:3])).is_dir()


# --- calls and names ------------------------------------------------------------------------------


def banned_calls(source: str) -> list[str]:
    """Doors to time and randomness other than clock.py."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in _BANNED_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            banned = _BANNED_CALLS.get(node.module, set())
            found += [
                f"{node.module}.{n.name}" for n in node.names if n.name in banned or node.module in _BANNED_MODULES
            ]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            found += [f"{owner}.{node.attr}"] if node.attr in _BANNED_CALLS.get(owner, ()) else []
    return found


def prints(source: str) -> int:
    if "print(" not in source:
        return 0
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return sum(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls)


def lost_tasks(source: str) -> list[int]:
    """Lines where a task is started and nobody keeps it. A TaskGroup keeps its own."""
    if "create_task(" not in source and "ensure_future(" not in source:
        return []
    tree = ast.parse(source)
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.unparse(item.context_expr)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _starts_task(node.value.func, groups)
    ]


def _starts_task(func: ast.expr, groups: set[str]) -> bool:
    if isinstance(func, ast.Name):
        return func.id in ("create_task", "ensure_future")
    is_start = isinstance(func, ast.Attribute) and func.attr in ("create_task", "ensure_future")
    owner = func.value if isinstance(func, ast.Attribute) else None
    return is_start and not (isinstance(owner, ast.Name) and owner.id in groups)


def lone_sleeps(source: str) -> list[int]:
    """Lines of a test that wait a fixed time: a sleep outside of a loop that polls. sleep(0) only yields."""
    if "sleep(" not in source:
        return []
    tree = ast.parse(source)
    polled = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.While | ast.For) for inner in ast.walk(node)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and id(node) not in polled
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def compared_kinds(source: str, kinds: Container[str]) -> list[int]:
    """Lines that compare something called `kind` with the name of an entry's kind."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(ast.unparse(side).endswith("kind") for side in (node.left, *node.comparators))
        and any(isinstance(inner, ast.Constant) and inner.value in kinds for inner in ast.walk(node))
    ]


def set_from_outside(source: str) -> list[int]:
    """Lines that assign an `on_*` attribute of another object: a part that is told later whom to call."""
    if ".on_" not in source:
        return []
    targets = [
        target
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return [
        target.lineno
        for target in targets
        if isinstance(target, ast.Attribute)
        and target.attr.startswith("on_")
        and not (isinstance(target.value, ast.Name) and target.value.id == "self")
    ]


def banned_names(source: str) -> set[str]:
    """Names that we define and that say nothing."""
    return {name for name in _defined(ast.parse(source)) if BANNED_WORDS & set(_words(name))}


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _words(name: str) -> list[str]:
    return [word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


# --- length ---------------------------------------------------------------------------------------


def function_lines(source: str) -> dict[str, int]:
    """name:line -> lines from def to the end of the body."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, Function))
    return {f"{node.name}:{node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}


def median_lines(sources: Iterable[str]) -> float:
    return statistics.median(size for source in sources for size in function_lines(source).values())


def long_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > LINE_CHARS_MAX]


def has_code(source: str) -> bool:
    """Whether there is behaviour to test: a function whose body is more than a docstring or an ellipsis."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, Function))
    return any(
        not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for node in functions
        for line in node.body
    )


def docstring_fault(source: str) -> str | None:
    text = ast.get_docstring(ast.parse(source))
    if not text:
        return "has no docstring"
    lines = len(text.splitlines())
    return f"has a docstring of {lines} lines" if lines > DOCSTRING_LINES_MAX else None


# --- language -------------------------------------------------------------------------------------

_FUSED = re.compile(r"(Who|What|Whose|Whoever)\b")
_CALLED_BY = re.compile(r"\b[Cc]alled by\b|\b(?:used|told|started|served|built|made|run|driven) by `?[\w/]+\.py", re.I)


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
            yield text


def fused_sentences(source: str) -> list[str]:
    """Sentences of docstrings that begin with Who, What, Whose or Whoever, and are not questions."""
    if not re.search(r"\bWh(o|at)", source):
        return []
    sentences = [one.strip() for text in docstrings(source) for one in re.split(r"(?<=[.!?:;])\s+|\n\s*\n", text)]
    return [one for one in sentences if _FUSED.match(one) and not one.endswith("?")]


def called_by(source: str) -> list[str]:
    """Lines of docstrings that say who calls the code: the import graph knows, and such a line goes stale."""
    if not _CALLED_BY.search(source):
        return []
    return [line for text in docstrings(source) for line in text.splitlines() if _CALLED_BY.search(line)]


# --- comments and prose ---------------------------------------------------------------------------


def bounds_without_reason(source: str) -> list[str]:
    """Constants whose line has no comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    reasons = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    assigned = [node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    return [ast.unparse(node) for node in assigned if (node.end_lineno or 0) not in reasons]


def missing_paths(text: str, root: Path) -> list[str]:
    """Paths in backticks that do not exist; `*` must match something."""
    quoted = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    named = {path for part in quoted if not re.search(r"[<{…]|NNNN", part) for path in _DOC_PATH.findall(part)}
    return sorted(path for path in named if not any(root.glob(path.rstrip("/."))))


def missing_links(text: str, folder: Path) -> list[str]:
    return sorted(link for link in set(_DOC_LINK.findall(text)) if not (folder / link).exists())


# --- Lua ------------------------------------------------------------------------------------------


class Header:
    """The contract at the top of a script."""

    def __init__(self, source: str) -> None:
        lines = source.splitlines()
        self.first = lines[0] if lines else ""
        comments = [line[3:] for line in lines[1:] if line.startswith("-- ")]
        self.name = comments[0].partition(":")[0] if comments else ""
        self.keys, self.more_keys = _names(comments, "KEYS")
        self.args, self.more_args = _names(comments, "ARGV")
        self.starts = {line.split()[0] for line in comments if line.split()}

    def faults(self, stem: str, source: str) -> list[str]:
        faults = [
            f"no line `{word}`" for word in ("Atomic", "KEYS", "ARGV", "returns", "cost") if word not in self.starts
        ]
        if self.first != "#!lua":
            faults.append("the first line is not #!lua")
        if self.name != stem:
            faults.append(f"the header names {self.name!r}")
        for array, names, more in (("KEYS", self.keys, self.more_keys), ("ARGV", self.args, self.more_args)):
            highest = max((int(n) for n in re.findall(rf"{array}\[(\d+)\]", source)), default=0)
            if highest > len(names) and not more:
                faults.append(f"{array}[{highest}] is used but the header lists {len(names)}")
        return faults


def _names(comments: list[str], array: str) -> tuple[list[str], bool]:
    """The fixed names of KEYS or ARGV, and whether a variable tail in brackets follows."""
    line = next((line for line in comments if line.split()[:1] == [array]), array)
    bare = re.sub(r"\(.*", "", line.removeprefix(array))
    return re.sub(r"\[.*?\]", "", bare).replace("none", "").split(), "[" in bare
