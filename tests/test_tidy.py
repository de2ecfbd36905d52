"""What a machine can see of the style: the tree is tidy, and each check notices a bad example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import tidings
from tests import tidy
from tidings import wiring
from tidings.stores import scripts as stubs
from tidings.stores import scripts_archive, scripts_audit, scripts_push, scripts_routing, scripts_ticks
from tidings.stores.keys import Keys

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "tidings"
MODULES = sorted(SRC.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LUA = sorted((SRC / "stores" / "lua").glob("*.lua"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
SAMPLES: dict[str, Any] = {"bytes": b"b", "str": "a", "int": 1, "bool": True, "tuple[int, int]": (0, 0), "Ranges": ()}


def dotted(file: Path) -> str:
    return ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__") or "__init__"


def in_tree(files: list[Path], check: Callable[[str], Any]) -> dict[str, Any]:
    """file -> what the check found, for files where it found something."""
    found = {str(file.relative_to(ROOT)): check(file.read_text("utf-8")) for file in files}
    return {name: fault for name, fault in found.items() if fault}


# --- imports --------------------------------------------------------------------------------------


def test_imports_go_down_the_way_of_a_message() -> None:
    wrong = {dotted(file): tidy.wrong_imports(dotted(file), file.read_text("utf-8")) for file in MODULES}
    assert {module: names for module, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("stores.keys", "from tidings.messaging.send import Send"),
        ("routing.hub", "from tidings.gateway import protocol"),
        ("messaging.send", "import tidings.gateway.http"),
        ("messaging.send", "from tidings.telemetry import Metrics"),
        ("model", "from tidings.errors import Problem"),
        ("clock", "from tidings import bounds"),
        ("sdk.client", "from tidings.stores.keys import Keys"),
        ("config", "from tidings.gateway.auth import Auth"),
        ("telemetry", "from tidings.config import Settings"),
        ("gateway.http", "from . import protocol"),
    ],
)
def test_an_import_against_the_direction_is_noticed(module: str, line: str) -> None:
    assert tidy.wrong_imports(module, line)


def test_only_wiring_and_the_entry_name_a_concrete_adapter() -> None:
    files = [file for file in MODULES if file.parent.name != "stores" and not tidy.is_entry(dotted(file).split(".")[0])]
    assert in_tree(files, tidy.named_adapters) == {}
    assert tidy.named_adapters("from tidings.stores.tables_sqlite import SqliteTables")
    assert not tidy.named_adapters("from tidings.stores.ports import Tables")


# --- pairs, length, names, calls ------------------------------------------------------------------


def test_every_module_with_code_has_its_test() -> None:
    folders = (*tidy.LAYERS, *tidy.TOOLS)
    layered = [file for folder in folders for file in sorted((SRC / folder).glob("*.py")) if file.stem != "__init__"]
    owed = [
        ROOT / "tests" / file.parent.name / f"test_{file.name}"
        for file in layered
        if tidy.has_code(file.read_text("utf-8"))
    ]
    assert [str(test.relative_to(ROOT)) for test in owed if not test.is_file()] == []
    assert tidy.has_code("def f():\n    return 1")
    assert not tidy.has_code('class P:\n    def f(self):\n        """Says."""\n        ...')


def test_modules_stay_under_400_lines() -> None:
    assert in_tree(MODULES, lambda text: max(0, len(text.splitlines()) - tidy.MODULE_LINES_MAX)) == {}


def test_functions_stay_under_50_lines_and_short_at_the_median() -> None:
    def long_ones(text: str) -> dict[str, int]:
        return {name: size for name, size in tidy.function_lines(text).items() if size > tidy.FUNCTION_LINES_MAX}

    assert in_tree(MODULES, long_ones) == {}
    assert long_ones("def f():\n" + "    x = 1\n" * 50) == {"f:1": 51}
    assert tidy.median_lines(file.read_text("utf-8") for file in MODULES) < tidy.FUNCTION_LINES_MEDIAN


def test_no_line_is_longer_than_120_characters() -> None:
    assert in_tree([*MODULES, *TESTS, *LUA, *sorted((ROOT / "bench").rglob("*.py"))], tidy.long_lines) == {}
    assert tidy.long_lines("x" * 121) == [1]


def test_every_module_says_what_it_is_for() -> None:
    assert in_tree(MODULES, tidy.docstring_fault) == {}
    assert tidy.docstring_fault("x = 1") == "has no docstring"


def test_names_say_something() -> None:
    assert in_tree(MODULES, tidy.banned_names) == {}
    assert [file.stem for file in MODULES if tidy.BANNED_WORDS & set(tidy._words(file.stem))] == []
    bad = "class UserManager: ...\ndef run(event_handlers): base_url = 1"
    assert tidy.banned_names(bad) == {"UserManager", "event_handlers", "base_url"}
    assert tidy.banned_names("database = serviceable = 1") == set()


def test_time_and_randomness_come_through_the_clock() -> None:
    assert in_tree([file for file in MODULES if file.name != "clock.py"], tidy.banned_calls) == {}
    bad = "import time, os, random\nfrom time import monotonic\ntime.time()\nos.urandom(2)\ndatetime.datetime.now()"
    assert sorted(tidy.banned_calls(bad)) == ["datetime.now", "os.urandom", "random", "time.monotonic", "time.time"]


def test_only_the_command_line_prints() -> None:
    assert in_tree([file for file in MODULES if not file.name.startswith("cli")], tidy.prints) == {}
    assert tidy.prints("def f():\n    print(1)") == 1


def test_every_task_is_kept() -> None:
    assert in_tree(MODULES, tidy.lost_tasks) == {}
    assert tidy.lost_tasks("asyncio.create_task(f())") == [1]
    assert tidy.lost_tasks("task = asyncio.create_task(f())") == []
    assert tidy.lost_tasks("async def g():\n    async with asyncio.TaskGroup() as t:\n        t.create_task(f())") == []


def test_tests_wait_for_events_and_not_for_time() -> None:
    assert in_tree(TESTS, tidy.lone_sleeps) == {}
    assert tidy.lone_sleeps("time" + ".sleep(1)") == [1]
    assert tidy.lone_sleeps("while not done():\n    time" + ".sleep(0.01)") == []


# --- prose ----------------------------------------------------------------------------------------


def test_every_bound_has_its_reason() -> None:
    assert tidy.bounds_without_reason((SRC / "bounds.py").read_text("utf-8")) == []
    assert tidy.bounds_without_reason("A = 1  # because\nB = 2") == ["B = 2"]


def test_every_path_named_in_the_docs_exists() -> None:
    assert in_tree(PAGES, lambda text: tidy.missing_paths(text, ROOT)) == {}
    assert tidy.missing_paths("see `src/tidings/nowhere.py` and `src/tidings/*.py`", ROOT) == ["src/tidings/nowhere.py"]


def test_every_link_in_the_docs_leads_somewhere() -> None:
    broken = {page.name: tidy.missing_links(page.read_text("utf-8"), page.parent) for page in PAGES}
    assert {page: links for page, links in broken.items() if links} == {}
    assert tidy.missing_links("[a](nowhere.md) [b](https://example.com) [c](#here)", ROOT) == ["nowhere.md"]


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    files = [*MODULES, *TESTS, *LUA, *PAGES, *sorted((ROOT / "bench").rglob("*.py"))]
    assert in_tree(files, marks.findall) == {}


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert versions[0] == tidings.__version__


def test_the_locks_name_no_host_and_no_folder() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        lines = lock.read_text("utf-8").splitlines()
        strange = [
            line for line in lines if not re.fullmatch(r"[a-z0-9.-]+==\S+.*\\|    --hash=sha256:\w{64}( \\)?", line)
        ]
        assert strange == [], lock.name
        assert not re.search(r"://|--index|--find", lock.read_text("utf-8")), lock.name


# --- the keyspace ---------------------------------------------------------------------------------


def test_the_keyspace_page_lists_every_key() -> None:
    page = (ROOT / "docs" / "keyspace.md").read_text("utf-8")
    assert [key for key in key_names() if f"`{key}" not in page] == []


def key_names() -> list[str]:
    """Each key's name up to its hash tag, with the kind of id in it: `unread:{user}`."""
    keys = Keys()
    plain = [value for name, value in vars(keys).items() if not name.startswith("_") and name != "prefix"]
    methods = [method for name, method in inspect.getmembers(keys, inspect.ismethod) if not name.startswith("_")]
    built = [method(*(name.removesuffix("_id") for name in inspect.signature(method).parameters)) for method in methods]
    return plain + [key[: key.find("}") + 1] or key for key in built]


def test_every_key_of_a_user_or_conversation_has_a_hash_tag() -> None:
    assert {"inbox:{user}", "unread:{user}", "conv:{conversation}", "nodes"} <= set(key_names())


@pytest.mark.parametrize("file", LUA, ids=lambda file: file.stem)
def test_a_script_keeps_its_header_contract(file: Path) -> None:
    source = file.read_text("utf-8")
    assert tidy.Header(source).faults(file.stem, source) == []


@pytest.mark.parametrize("file", LUA, ids=lambda file: file.stem)
def test_a_script_agrees_with_its_stub(file: Path) -> None:
    header = tidy.Header(file.read_text("utf-8"))
    call = sample_call(stub_of(file.stem))
    key_count = int(call.words[2])
    argument_count = len(call.words) - 3 - key_count + (call.epoch_at is not None)
    assert (key_count, argument_count) == (len(header.keys), len(header.args))
    assert (call.epoch_at is not None) == (header.args[:1] == ["epoch"])


def stub_of(name: str) -> Callable[..., Any]:
    """The function that is called like the script, in whichever module of stubs it is."""
    for owner in (
        stubs.Scripts(Keys(), unread_cap=10, unread_ttl_s=60),
        scripts_ticks.TickScripts(Keys()),
        scripts_push.PushScripts(Keys()),
        scripts_audit.AuditScripts(Keys()),
        scripts_archive.ArchiveScripts(Keys()),
    ):
        if hasattr(owner, name):
            return cast(Callable[..., Any], getattr(owner, name))
    return partial(getattr(scripts_routing, name), Keys())


def sample_call(stub: Callable[..., Any]) -> Any:
    """The call that the stub builds when every variable tail is empty."""
    parameters = inspect.signature(stub).parameters.values()
    positional = [sample(p) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    return stub(*positional, **{p.name: sample(p) for p in parameters if p.kind is p.KEYWORD_ONLY})


def sample(parameter: inspect.Parameter) -> Any:
    kind = str(parameter.annotation)
    if kind.startswith(("Sequence", "Iterable")):
        return ()
    if kind == "Mark":
        return stubs.Mark(version=1, cursor=0, seen=0, count=0, first=0, floor=0)
    return None if kind.endswith("| None") else SAMPLES[kind]


def test_every_script_is_loaded_and_every_stub_has_a_script() -> None:
    modules = (stubs, scripts_ticks, scripts_push, scripts_routing, scripts_audit, scripts_archive)
    assert sorted(name for module in modules for name in module.NAMES) == [file.stem for file in LUA]
    loaded = set(wiring.LUA)
    assert all(source in loaded for module in modules for source in module.SOURCES.values())


def test_a_script_that_breaks_its_contract_is_noticed() -> None:
    bad = "#!lua\n-- other: does.\n-- KEYS  a\n-- ARGV  x  [y ...]\n-- returns 1\nreturn KEYS[2]"
    faults = tidy.Header(bad).faults("name", bad)
    assert len(faults) == 4, faults  # another name, no Atomic, no cost, a key that the header does not list
