"""The page that walks through a send, an inbox page, a read mark and a resume names what the code really has."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

from tests.support import tidy
from tests.support.paths import ROOT
from tidings import testing

SRC = ROOT / "src" / "tidings"
PAGE = (ROOT / "docs" / "inside" / "message-path.md").read_text("utf-8")
FILES_OF_A_SEND_MAX = 30
WALKS = ("One send", "One inbox page", "One read mark", "One resume")

Step = list[tuple[str, list[str]]]  # files, each with the functions that the step names in it


def steps_of(page: str, walk: str) -> list[Step]:
    """The numbered steps below a heading. A step names its files and functions before its first colon."""
    section = re.split(r"^## ", page, flags=re.MULTILINE)
    (text,) = [part.partition("\n")[2] for part in section if part.startswith(f"{walk}\n")]
    heads = re.findall(r"^\d+\. (.*?`):\s", text, flags=re.DOTALL | re.MULTILINE)
    return [parts_of(head) for head in heads]


def parts_of(head: str) -> Step:
    parts: Step = []
    for name in re.findall(r"`([^`]+)`", head):
        if name.endswith((".py", ".lua")):
            parts.append((name, []))
        else:
            parts[-1][1].append(name)
    return parts


def names_in(source: str) -> set[str]:
    """Functions, classes, and methods as `Class.method`."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    top = [node for node in ast.parse(source).body if isinstance(node, kinds)]
    methods = {f"{node.name}.{one.name}" for node in top for one in ast.walk(node) if isinstance(one, kinds)}
    return {node.name for node in top} | methods


def missing(steps: list[Step], folder: Path) -> list[str]:
    wrong: list[str] = []
    for file, functions in (part for step in steps for part in step):
        if not (folder / file).is_file():
            wrong.append(file)
        elif functions:
            known = names_in((folder / file).read_text("utf-8"))
            wrong += [f"{file} {function}" for function in functions if function not in known]
    return wrong


@pytest.mark.parametrize("walk", WALKS)
def test_every_file_and_function_of_a_walk_exists(walk: str) -> None:
    steps = steps_of(PAGE, walk)
    assert len(steps) >= 8
    assert missing(steps, SRC) == []


@pytest.mark.parametrize("walk", WALKS)
def test_every_step_names_where_it_happens(walk: str) -> None:
    numbers = re.findall(r"^(\d+)\. ", PAGE.partition(f"## {walk}\n")[2].partition("\n## ")[0], flags=re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(steps_of(PAGE, walk)) + 1))
    for step in steps_of(PAGE, walk):
        assert step and all(functions or file.endswith(".lua") for file, functions in step)


def test_a_send_is_read_in_few_files() -> None:
    files = {file for step in steps_of(PAGE, "One send") for file, _ in step}
    assert len(files) <= FILES_OF_A_SEND_MAX


class Crossing(NamedTuple):
    """What one plain send runs through: files below src/tidings, and calls (caller, callee) between them."""

    files: set[str]
    calls: set[tuple[str, str]]


def place(code: CodeType) -> str:
    """`gateway/connection.py Connection.push`, or nothing for code that is not the server's."""
    folder, slash, file = code.co_filename.partition(f"{SRC}/")
    return f"{file} {code.co_qualname}" if slash and not folder else ""


async def plain_sends(count: int) -> list[Crossing]:
    """Trace each of these sends, from its frame to the recipient's."""
    codes: set[tuple[CodeType | None, CodeType]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add((frame.f_back.f_code if frame.f_back is not None else None, frame.f_code))

    sends: list[Crossing] = []
    threading.setprofile(note)  # for the threads of the tables, which start with the node
    try:
        async with testing.server() as server:
            alice, bob = await server.client("alice"), await server.client("bob")
            conversation_id = await alice.direct("bob")
            heard = bob.messages(conversation_id)
            for number in range(count):
                codes.clear()
                sys.setprofile(note)
                await alice.send(conversation_id, f"text {number}")
                await asyncio.wait_for(anext(heard), 60)
                sys.setprofile(None)
                now = codes.copy()  # in one step: the threads of the tables go on
                calls = {(place(caller) if caller is not None else "", place(callee)) for caller, callee in now}
                sends.append(Crossing({callee.partition(" ")[0] for _, callee in calls if callee}, calls))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sends


def is_upward(call: tuple[str, str]) -> bool:
    """The callee stands before the caller on the way of a message."""
    caller, callee = (tidy.LAYERS.index(top) if (top := one.partition("/")[0]) in tidy.LAYERS else None for one in call)
    return caller is not None and callee is not None and callee < caller


@pytest.fixture(scope="module")
def sends() -> list[Crossing]:
    return asyncio.run(plain_sends(60))


def test_a_plain_send_runs_through_no_more_files_than_the_page_says(sends: list[Crossing]) -> None:
    # The first fills caches, and background work comes in between.
    always = set.intersection(*(send.files for send in sends[1:]))
    assert {"gateway/socket.py", "messaging/send/pipeline.py", "stores/tables/sqlite/log.py"} <= always
    said = re.search(r"runs through at most (\d+) files", " ".join(PAGE.split()))
    assert said is not None and len(always) <= int(said[1]), sorted(always)


def test_nothing_is_called_upwards_but_the_answer_and_the_events_of_devices(sends: list[Crossing]) -> None:
    """Run time obeys the direction of imports too."""
    always = set.intersection(*(send.calls for send in sends[1:]))  # background work comes in between
    upward = {callee for _, callee in filter(is_upward, always)}
    assert upward == {"gateway/connection.py Connection.push", "gateway/dispatch.py Dispatch._answer_send"}
    assert is_upward(("stores/keyspace/link.py Link.f", "messaging/access.py Access.g"))
    assert not is_upward(("gateway/dispatch.py Dispatch.send", "messaging/send/lanes.py Sends.submit"))


def test_the_walk_of_a_send_passes_every_stage_of_the_pipeline() -> None:
    source = (SRC / "messaging" / "send" / "pipeline.py").read_text("utf-8")
    stages = set(re.findall(r"self\.\w+\.(\w+)\(batch\)", source))
    functions = [name for step in steps_of(PAGE, "One send") for _, names in step for name in names]
    named = {name.partition(".")[2] for name in functions}
    assert len(stages) > 8
    assert stages - {"begin", "wait", "judge"} <= named  # bookkeeping, a rare wait, and a stage that few have


def test_a_name_that_is_gone_is_noticed() -> None:
    page = "## One send\n\n1. `clock.py` `Clock.now_ms`, `Clock.nothing`; `nowhere.py` `f`: words.\n\n## Next\n"
    assert missing(steps_of(page, "One send"), SRC) == ["clock.py Clock.nothing", "nowhere.py"]
