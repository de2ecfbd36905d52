"""Every code block of the README and of docs/use: programs run as they are pasted, twice, against one node.

Blocks that cannot run are parsed: frames and routes by the schema, settings by their table, JSON and HTML as such. The
program of docs/use/sdk-javascript.md runs in clients/js/test, pages for a browser in tests/browser/test_code_blocks.py,
the endpoints of docs/use/tokens.md in tests/docs/test_guides.py, and docs/use/react.md is built in tests/clients/react.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.protocol.test_protocol_page import route_table
from tests.support.code_blocks import USE_PAGES, Block, blocks_of, clone, lines_of, paste
from tests.support.forked_python import forking
from tests.support.nodes.node_process import NodeProcess
from tidings.clock import Clock
from tidings.config.settings import rows
from tidings.errors import BadRequest
from tidings.protocol.client_frames import decode_frame
from tidings.protocol.server_frames import SERVER_FRAMES
from tidings_client import sign_token
from tidings_proof.world.valkey import ValkeyProcess

LANGUAGES = {"python", "js", "jsx", "html", "sh", "text", "json", ""}
RUN_ELSEWHERE = {
    "main.py": "tests/docs/test_guides.py",
    "urls.py": "tests/docs/test_guides.py",
    "server.mjs": "tests/docs/test_guides.py",
    "page.mjs": "tests/browser/test_code_blocks.py",
}  # they need FastAPI, Django, Express or a browser: compiled here, run there
WITHOUT_A_MACHINE = {  # the first lines of blocks that only a reader can check
    "git clone <this repository> tidings && cd tidings && make run": "run by tests/browser/test_first_minute.py",
    "frame -> lane -> [admit": "a picture",
    "POST /chat": "the request that a webhook makes",
    "POST /judge": "the request to a before-send hook",
}
NODE_WITH_WEBSOCKET = 22
SECRET = "a-secret-of-the-tests-that-is-long-enough"
SERVER_FIELDS = {str(kind.__struct_config__.tag): set(kind.__struct_fields__) for kind in SERVER_FRAMES}
PROGRAMS = [page for page in USE_PAGES if any(block.file is None for block in blocks_of(page, "python"))]
FIRST_PAGES = [
    page for page in USE_PAGES if page.stem in ("README", "quickstart", "bot", "testing", "tokens", "webhooks")
]
PASTED = [page for page in USE_PAGES if blocks_of(page, "sh")]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("docs") / "data", words=["--dev"]) as node:
        yield node.start()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with forking(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


@pytest.fixture(scope="module")
def api_key(node: NodeProcess, programs: Path) -> str:
    words = [str(programs / "tidings"), "key", "create", "--name", "docs", "--data", str(node.data)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def compiled(block: Block) -> CodeType:
    made: CodeType = compile(block.text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return made


def names_of_pages(node: NodeProcess, api_key: str, folder: Path) -> dict[str, Any]:
    """What the pages take for granted: docs/use/sdk-python.md says what each is."""
    token = sign_token(SECRET, "alice")
    url = f"http://127.0.0.1:{node.port}"
    return {"url": url, "secret": SECRET, "token": token, "api_key": api_key, "folder": folder}


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
async def test_the_programs_of_a_page_run_from_top_to_bottom_twice(
    page: Path, node: NodeProcess, api_key: str, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    redis_url = f"{valkey.url}?prefix=docs{Clock().random_id(4)}."
    for _ in range(2):
        names = names_of_pages(node, api_key, tmp_path)
        for block in (one for one in blocks_of(page, "python") if one.file is None):
            pasted = Block(block.page, block.language, block.text.replace("redis://localhost:6379", redis_url))
            running = eval(compiled(pasted), names)  # a coroutine where the block awaits something
            if inspect.isawaitable(running):
                await running


def websocket_of_node() -> dict[str, str]:
    """Node 22 has a WebSocket. Node 20 has it behind a flag."""
    if (program := shutil.which("node")) is None:
        return {}
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    is_old = int(said.lstrip("v").split(".")[0]) < NODE_WITH_WEBSOCKET
    return {"NODE_OPTIONS": "--experimental-websocket"} if is_old else {}


@pytest.mark.parametrize("page", PASTED, ids=lambda page: page.name)
def test_the_commands_and_files_of_a_page_run_as_pasted_twice(
    page: Path, node: NodeProcess, api_key: str, programs: Path, tmp_path: Path
) -> None:
    folder = clone(tmp_path, programs)
    env = {
        "TIDINGS_DATA": str(node.data),
        "TIDINGS_AUTH_SECRET": SECRET,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a reader has no plugins of this repository
        "PYTEST_ADDOPTS": "-p pytest_asyncio.plugin -p no:cacheprovider -c /dev/null --rootdir .",
        "API_KEY": api_key,
        **websocket_of_node(),
    }
    for _ in range(2):
        paste(page, folder, f"http://127.0.0.1:{node.port}", env)


@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: page.name)
def test_a_newcomer_needs_no_activated_environment(page: Path) -> None:
    commands = "".join(block.text for block in blocks_of(page, "sh"))
    assert re.findall(r"(?:^|[(;&|] ?)(?:tidings|python|pip) .*", commands, re.MULTILINE) == []


@pytest.mark.parametrize("page", USE_PAGES, ids=lambda page: page.name)
def test_every_file_of_a_page_is_run_or_at_least_compiles(page: Path, tmp_path: Path) -> None:
    commands = "".join(block.text for block in blocks_of(page, "sh"))
    for block in blocks_of(page, "python", "js"):
        if block.file is None:
            continue
        assert Path(block.file).stem in commands or block.file in RUN_ELSEWHERE, f"nothing runs {block.file}"
        if block.language == "python":
            compiled(block)
        elif node := shutil.which("node"):
            file = tmp_path / block.file
            file.write_text(block.text)
            subprocess.run([node, "--check", str(file)], check=True)


def test_every_block_is_of_a_language_that_a_test_knows() -> None:
    known = [(block.page, block.language) for page in USE_PAGES for block in blocks_of(page)]
    assert len(known) > 40
    assert [one for one in known if one[1] not in LANGUAGES] == []


# --- blocks that cannot run ---


class Balance(HTMLParser):
    """Balance: every tag of a page is closed in its order."""

    VOID = frozenset({"meta", "link", "input", "br", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.is_open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.is_open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.is_open.pop() == tag


def objects_of(text: str) -> list[Any]:
    """The JSON values of a block, which may go over several lines. `…` ends a text that is cut short."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    return found


def test_json_and_html_are_what_they_say() -> None:
    for block in (block for page in USE_PAGES for block in blocks_of(page, "json", "html")):
        if block.language == "json":
            assert objects_of(block.text)
        else:
            balance = Balance()
            balance.feed(block.text)
            assert balance.is_open == []


def route_names() -> set[str]:
    return {f"{route.method} {re.sub(r'{[^}]*}', '{}', route.path)}" for route in route_table()}


def check_frame(line: str) -> None:
    """`C` lines decode. `S` lines name a frame and fields that it has; an `ok` has those of its request."""
    text = re.sub(r", …}", "}", line[2:]).replace(": …", ": null")
    if line[0] == "C":
        decode_frame(text)
        return
    frame = json.loads(text)
    assert frame["type"] == "ok" or frame.keys() - {"type"} <= SERVER_FIELDS[frame["type"]]


def check_routes(line: str, known: set[str]) -> None:
    methods, path = line.split()[:2]
    for method in methods.split("|"):
        assert f"{method} {re.sub(r'{[^}]*}', '{}', path.partition('?')[0])}" in known, line


def check_setting(line: str) -> None:
    name, _, value = line.partition("=")
    (row,) = [row for row in rows() if row.variable == name]
    if (given := value.partition(" #")[0].strip()) != "…":
        row.parse(given, "the page")


def test_frames_routes_and_settings_on_the_pages_exist() -> None:
    known, checked = route_names(), 0
    for page, line in lines_of(USE_PAGES):
        if re.match(r"[CS] {", line):
            check_frame(line)
        elif re.match(r"(GET|PUT|POST|PATCH|DELETE)[| ].*/v1/", line):
            check_routes(line, known)
        elif line.startswith("TIDINGS_"):
            check_setting(line)
        else:
            continue
        checked += 1
        assert page
    assert checked > 25


def test_a_block_without_a_language_has_something_that_a_test_checks() -> None:
    checked = re.compile(r"^([CS] {|(GET|PUT|POST|PATCH|DELETE)[| ].*/v1/|TIDINGS_)", re.MULTILINE)
    for block in (block for page in USE_PAGES for block in blocks_of(page, "")):
        is_known = any(block.text.startswith(first) for first in WITHOUT_A_MACHINE)
        assert is_known or checked.search(block.text), f"{block.page}: {block.text}"


def test_a_frame_a_route_and_a_setting_that_are_gone_are_noticed() -> None:
    with pytest.raises(BadRequest):
        check_frame('C {"type":"message.shout"}')
    with pytest.raises(KeyError):
        check_frame('S {"type":"message.shouted"}')
    with pytest.raises(AssertionError):
        check_routes("GET|PUT /v1/nowhere", route_names())
    with pytest.raises(ValueError):
        check_setting("TIDINGS_NOTHING=1")
