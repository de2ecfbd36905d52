"""What a machine can see of the style: the tree is tidy, and each check notices a bad example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import tidings
from tests.support import tidy
from tidings.model import KINDS
from tidings.stores.keyspace import scripts
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts import archive as scripts_archive
from tidings.stores.keyspace.scripts import audit as scripts_audit
from tidings.stores.keyspace.scripts import marks
from tidings.stores.keyspace.scripts import messaging as stubs
from tidings.stores.keyspace.scripts import push as scripts_push
from tidings.stores.keyspace.scripts import receipts as scripts_receipts
from tidings.stores.keyspace.scripts import session as scripts_routing
from tidings.stores.keyspace.scripts import tally as scripts_tally

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "tidings"
MODULES = sorted(SRC.rglob("*.py"))
CLIENT_PACKAGE = ROOT / "clients" / "python" / "src" / "tidings_client"
CLIENT = sorted(CLIENT_PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = [
    *sorted((ROOT / "clients" / "js" / "src").glob("*.js")),
    *sorted(file for folder in ("app", "admin") for file in (SRC / "web" / folder).rglob("*.js")),
]
LUA = sorted((SRC / "stores" / "keyspace" / "lua").glob("*.lua"))
PROOF_PACKAGE = ROOT / "proof" / "src" / "tidings_proof"
PROOF = sorted(PROOF_PACKAGE.rglob("*.py"))
CLIENT_PACKAGE = ROOT / "clients" / "python" / "src" / "tidings_client"
CLIENT = sorted(CLIENT_PACKAGE.rglob("*.py"))
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
        ("stores.keyspace.keys", "from tidings.messaging.send.pipeline import Sends"),
        ("routing.hub", "from tidings.gateway import dispatch"),
        ("messaging.send.pipeline", "import tidings.gateway.http.app"),
        ("messaging.send.pipeline", "from tidings.telemetry.metrics import Metrics"),
        ("messaging.send.pipeline", "from tidings.protocol.bodies import SentBody"),
        ("operators.status", "from tidings.gateway.auth import Auth"),
        ("gateway.server", "from tidings.node.graph import Core"),
        ("model", "from tidings.errors import Problem"),
        ("clock", "from tidings import bounds"),
        ("config.settings", "from tidings.gateway.auth import Auth"),
        ("telemetry.metrics", "from tidings.config.settings import Settings"),
        ("gateway.http.app", "from . import routes"),
    ],
)
def test_an_import_against_the_direction_is_noticed(module: str, line: str) -> None:
    assert tidy.wrong_imports(module, line)


def test_no_two_folders_import_each_other() -> None:
    named = {".".join(file.relative_to(SRC).with_suffix("").parts): file for file in MODULES}
    imports = {name: tidy.imports_of(file.read_text("utf-8")) for name, file in named.items()}
    assert tidy.folder_cycle(imports) == []
    bad = {"a.x": {"b.y.f"}, "b.y": {"c.z"}, "c.z": {"a.x.g"}, "d": {"a.x"}}
    assert tidy.folder_cycle(bad) == ["a", "b", "c", "a"]


def test_a_folder_is_a_room_for_one_idea() -> None:
    for packages in (SRC, ROOT / "proof" / "src", ROOT / "clients" / "python" / "src"):
        files = [file.relative_to(packages) for file in packages.rglob("*.py") if file.stem != "__init__"]
        assert tidy.crowded_folders(".".join(file.with_suffix("").parts) for file in files) == {}
    assert tidy.crowded_folders([f"a.b{n}" for n in range(16)] + ["c.d"]) == {"a": 16}


def test_only_the_stores_name_an_adapter() -> None:
    files = [file for file in MODULES if dotted(file).split(".")[0] != "stores"]
    assert in_tree(files, tidy.named_adapters) == {}
    assert tidy.named_adapters("from tidings.stores.push.apns import Apns")
    assert tidy.named_adapters("from tidings.stores.tables.sqlite.adapter import SqliteTables")
    assert not tidy.named_adapters("from tidings.stores.tables.ports import Tables")


def test_an_adapter_of_the_tables_is_named_in_its_folder_and_by_its_scheme_only() -> None:
    files = [file for file in MODULES if not dotted(file).startswith("stores.tables.")]
    assert in_tree(files, tidy.named_tables) == {}
    assert tidy.named_tables("from tidings.stores.tables.dynamodb import adapter")
    assert tidy.named_tables("if url.startswith('dynamodb:'): ...")
    assert not tidy.named_tables('"""SQLite and DynamoDB."""')
    rooms = [file for file in MODULES if dotted(file).startswith("stores.tables.")]
    for file in rooms:
        home = dotted(file).split(".")[2]
        others = [name for name in tidy.named_adapters(file.read_text("utf-8")) if name.split(".")[2] != home]
        assert others == [], file


# --- pairs, length, names, calls ------------------------------------------------------------------


def test_every_module_with_code_has_its_test() -> None:
    packages = {SRC: "tests", PROOF_PACKAGE: "tests/proof", CLIENT_PACKAGE: "tests/clients/python"}
    owed = [
        ROOT / tests / file.relative_to(package).parent / f"test_{file.name}"
        for package, tests in packages.items()
        for file in package.rglob("*.py")
        if not file.stem.startswith("__") and tidy.has_code(file.read_text("utf-8"))
    ]
    found = [str(test.relative_to(ROOT)).replace("tests/proof/simulation/", "tests/simulation/") for test in owed]
    assert [test for test in found if not (ROOT / test).is_file()] == []
    assert tidy.has_code("def f():\n    return 1")
    assert not tidy.has_code('class P:\n    def f(self):\n        """Says."""\n        ...')


def test_modules_stay_under_400_lines() -> None:
    assert in_tree(MODULES, lambda text: max(0, len(text.splitlines()) - tidy.MODULE_LINES_MAX)) == {}


def test_the_server_and_its_core_grow_only_by_decision() -> None:
    def lines(files: Iterable[Path]) -> int:
        return sum(len(file.read_text("utf-8").splitlines()) for file in files)

    rooms = [SRC / "messaging" / room for room in ("send", "deliver", "unread", "reading", "conversations")]
    core = [file for room in rooms for file in room.glob("*.py")]
    assert len(core) > 50
    assert lines([*core, SRC / "messaging" / "access.py", SRC / "messaging" / "log.py"]) <= tidy.CORE_LINES_MAX
    assert lines(SRC.rglob("*.py")) <= tidy.SERVER_LINES_MAX


def test_scripts_of_the_pages_and_the_client_stay_under_400_lines() -> None:
    def excess(text: str) -> int:
        return max(0, len(text.splitlines()) - tidy.MODULE_LINES_MAX)

    assert len(SCRIPTS) > 50
    assert in_tree(SCRIPTS, excess) == {}
    assert excess("let x = 1;\n" * 401) == 1
    assert in_tree([file for file in SCRIPTS if SRC not in file.parents], tidy.long_lines) == {}


def test_functions_stay_under_50_lines_and_short_at_the_median() -> None:
    def long_ones(text: str) -> dict[str, int]:
        return {name: size for name, size in tidy.function_lines(text).items() if size > tidy.FUNCTION_LINES_MAX}

    assert in_tree(MODULES, long_ones) == {}
    assert long_ones("def f():\n" + "    x = 1\n" * 50) == {"f:1": 51}
    assert tidy.median_lines(file.read_text("utf-8") for file in MODULES) < tidy.FUNCTION_LINES_MEDIAN


def test_no_line_is_longer_than_120_characters() -> None:
    assert in_tree([*MODULES, *TESTS, *LUA, *sorted((ROOT / "proof").rglob("*.py"))], tidy.long_lines) == {}
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


def test_no_part_is_told_later_whom_to_call() -> None:
    assert in_tree([*MODULES, *PROOF, *CLIENT, *TESTS], tidy.set_from_outside) == {}
    bad = "unread.on_read = receipts.read\nself.router.on_counts: Callable[[], None] = f\nself.on_mine = g"
    assert tidy.set_from_outside(bad) == [1, 2]


def test_time_and_randomness_come_through_the_clock() -> None:
    assert in_tree([file for file in MODULES if file.name != "clock.py"], tidy.banned_calls) == {}
    bad = "import time, os, random\nfrom time import monotonic\ntime.time()\nos.urandom(2)\ndatetime.datetime.now()"
    assert sorted(tidy.banned_calls(bad)) == ["datetime.now", "os.urandom", "random", "time.monotonic", "time.time"]


def test_only_the_table_of_kinds_knows_their_names() -> None:
    others = [file for file in MODULES if file != SRC / "model.py"]
    assert in_tree(others, lambda text: tidy.compared_kinds(text, KINDS)) == {}
    assert tidy.compared_kinds('entry.kind == "void"\nkind in ("edit", "x")\nhead.kind == "direct"', KINDS) == [1, 2]


def test_only_the_command_line_prints() -> None:
    assert in_tree([file for file in MODULES if file.parent != SRC / "cli"], tidy.prints) == {}
    assert tidy.prints("def f():\n    print(1)") == 1


def test_the_python_client_keeps_the_laws_of_the_server() -> None:
    assert in_tree(CLIENT, lambda text: max(0, len(text.splitlines()) - tidy.MODULE_LINES_MAX)) == {}
    assert (
        in_tree(CLIENT, lambda text: max(tidy.function_lines(text).values(), default=0) > tidy.FUNCTION_LINES_MAX) == {}
    )
    for check in (tidy.long_lines, tidy.docstring_fault, tidy.banned_names, tidy.lost_tasks, tidy.prints):
        assert in_tree(CLIENT, check) == {}
    assert in_tree([file for file in CLIENT if file.name != "clock.py"], tidy.banned_calls) == {}
    assert (
        tidy.bounds_without_reason(next(file for file in CLIENT if file.name == "bounds.py").read_text("utf-8")) == []
    )
    package = ROOT / "clients" / "python" / "src" / "tidings_client"
    coded = [file for file in CLIENT if file.stem != "__init__" and tidy.has_code(file.read_text("utf-8"))]
    owed = [ROOT / "tests/clients/python" / file.relative_to(package).parent / f"test_{file.name}" for file in coded]
    assert [str(test.relative_to(ROOT)) for test in owed if not test.is_file()] == []


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


def test_no_sentence_of_a_docstring_begins_with_a_pronoun_that_is_no_question() -> None:
    assert in_tree([*MODULES, *PROOF, *CLIENT], tidy.fused_sentences) == {}
    bad = '"""Does. Who asks is told: What is it?"""\ndef f():\n    """What it does."""'
    assert tidy.fused_sentences(bad) == ["Who asks is told:", "What it does."]


def test_no_docstring_says_which_module_calls_it() -> None:
    assert in_tree([*MODULES, *PROOF, *CLIENT], tidy.called_by) == {}
    assert len(tidy.called_by('"""A part.\n\nUsed by hub.py.\nCalled by the lane.\nBuilt by `graph.py`.\n"""')) == 3


def test_every_bound_has_its_reason() -> None:
    assert in_tree([file for file in MODULES if file.stem == "bounds"], tidy.bounds_without_reason) == {}
    assert tidy.bounds_without_reason("A = 1  # because\nB = 2") == ["B = 2"]


def test_every_path_named_in_the_docs_exists() -> None:
    assert in_tree(PAGES, lambda text: tidy.missing_paths(text, ROOT)) == {}
    assert tidy.missing_paths("see `src/tidings/nowhere.py` and `src/tidings/*.py`", ROOT) == ["src/tidings/nowhere.py"]


def test_every_link_in_the_docs_leads_somewhere() -> None:
    broken = {page.name: tidy.missing_links(page.read_text("utf-8"), page.parent) for page in PAGES}
    assert {page: links for page, links in broken.items() if links} == {}
    assert tidy.missing_links("[a](nowhere.md) [b](https://example.com) [c](#here)", ROOT) == ["nowhere.md"]


def test_no_empty_file_lies_about_in_the_root() -> None:
    files = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")]
    assert files and [path.name for path in files if path.stat().st_size == 0] == []


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    files = [*MODULES, *TESTS, *LUA, *PAGES, *sorted((ROOT / "proof").rglob("*.py"))]
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
    page = (ROOT / "docs" / "inside" / "keyspace.md").read_text("utf-8")
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
        scripts_receipts.ReceiptScripts(Keys()),
        scripts_push.PushScripts(Keys()),
        scripts_tally.TallyScripts(Keys(), cap=10),
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
        return marks.Mark(version=1, cursor=0, seen=0, count=0, first=0, floor=0)
    if kind in ("Sums", "Flags"):
        return getattr(marks, kind)()
    if kind == "Place":
        return stubs.TOP
    return None if kind.endswith("| None") else SAMPLES[kind]


def test_every_script_is_loaded_and_every_stub_has_a_script() -> None:
    assert sorted(name for module in scripts.MODULES for name in module.NAMES) == [file.stem for file in LUA]


def test_a_script_that_breaks_its_contract_is_noticed() -> None:
    bad = "#!lua\n-- other: does.\n-- KEYS  a\n-- ARGV  x  [y ...]\n-- returns 1\nreturn KEYS[2]"
    faults = tidy.Header(bad).faults("name", bad)
    assert len(faults) == 4, faults  # another name, no Atomic, no cost, a key that the header does not list
