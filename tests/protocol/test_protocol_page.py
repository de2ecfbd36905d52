"""docs/use/protocol.md does not fall behind: whatever the schema modules and the route table have is named there."""

from __future__ import annotations

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import Gateway
from tidings import bounds
from tidings.errors import TABLE, Close
from tidings.gateway import http as http_package
from tidings.gateway.http.routes import Route
from tidings.protocol.bodies import HistoryBody, InboxBody, InboxRowBody, MessageBody, ReadStateBody, SentBody
from tidings.protocol.client_frames import ClientFrame, decode_frame
from tidings.protocol.server_frames import SERVER_FRAMES, Ok
from tidings.protocol.types import WORDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "use" / "protocol.md").read_text("utf-8")
CLIENT_FRAMES: tuple[type[msgspec.Struct], ...] = get_args(ClientFrame)
SAID, HEARD = PAGE.split("### What a client says")[1].split("### What the server says")


def tag_of(frame: type[msgspec.Struct]) -> str:
    return str(frame.__struct_config__.tag)


def row_of(section: str, frame: type[msgspec.Struct]) -> str:
    """The line of a frame in its table."""
    found = [line for line in section.splitlines() if line.startswith(f"| `{tag_of(frame)}` |")]
    assert len(found) == 1, f"{tag_of(frame)} has {len(found)} rows"
    return found[0]


def examples(section: str) -> list[dict[str, Any]]:
    """The objects in the section's JSON blocks, which may go over several lines."""
    decoder, found = json.JSONDecoder(), []
    for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL):
        rest = block.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            found.append(value)
            rest = rest[end:].strip()
    return found


@pytest.mark.parametrize("frame", CLIENT_FRAMES, ids=tag_of)
def test_every_client_frame_is_described_with_all_its_fields(frame: type[msgspec.Struct]) -> None:
    row = row_of(SAID, frame)
    assert [name for name in frame.__struct_fields__ if name != "id" and f"`{name}`" not in row] == []


@pytest.mark.parametrize("frame", SERVER_FRAMES, ids=tag_of)
def test_every_server_frame_is_described_with_all_its_fields(frame: type[msgspec.Struct]) -> None:
    row = row_of(HEARD, frame)
    if issubclass(frame, InboxRowBody):
        assert "an inbox row" in row
    else:
        assert [name for name in frame.__struct_fields__ if f"`{name}`" not in row] == []


def test_an_inbox_row_and_an_entry_have_all_their_fields_on_the_page() -> None:
    inbox_row = PAGE.split("An **inbox row** is")[1].split("\n\n")[0]
    assert [name for name in InboxRowBody.__struct_fields__ if f"`{name}`" not in inbox_row] == []
    described = PAGE.split("## MESSAGE")[1].split("## The socket")[0]
    (entry,) = examples(described)
    optional = [name for name in MessageBody.__struct_fields__ if name not in entry]
    assert [*entry, *optional] == list(MessageBody.__struct_fields__)
    assert [name for name in optional if f"| `{name}` |" not in described] == []
    msgspec.convert(entry, MessageBody)


def test_the_examples_of_client_frames_are_frames() -> None:
    shown = examples(SAID)
    decoded = [decode_frame(json.dumps(example)) for example in shown]
    assert {type(frame) for frame in decoded} == set(CLIENT_FRAMES)


def optional_of(kind: type[msgspec.Struct]) -> set[str]:
    """Fields that are absent where they have nothing to say."""
    return {field.name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}


def test_the_examples_of_server_frames_are_frames_with_all_their_fields() -> None:
    kinds = {tag_of(frame): frame for frame in SERVER_FRAMES}
    shown = examples(HEARD)
    assert {example["type"] for example in shown} == set(kinds)
    for example in shown:
        kind = kinds[example["type"]]
        msgspec.convert(example, kind)
        if kind is not Ok:
            shown_names = example.keys() - {"type"}
            assert set(kind.__struct_fields__) - optional_of(kind) <= shown_names <= set(kind.__struct_fields__)


def test_every_answer_of_a_request_has_its_example() -> None:
    answers = [example for example in examples(HEARD) if example["type"] == "ok"]
    fields = {tuple(key for key in answer if key not in ("id", "type")): answer for answer in answers}
    assert () in fields
    for kind in (SentBody, ReadStateBody, InboxBody, HistoryBody):
        needed = {field.name for field in msgspec.structs.fields(kind) if field.required}
        (names,) = [one for one in fields if needed <= set(one) <= set(kind.__struct_fields__)]
        msgspec.convert(fields.pop(names), kind)
    assert list(fields) == [()]


def route_table() -> list[Route]:
    """The routes of every module in gateway/http, with those that only some settings bring. No route is run."""
    found: list[Route] = []
    root = Path(http_package.__file__).parent
    for file in sorted(root.rglob("*.py")):
        module = import_module(".".join((http_package.__name__, *file.relative_to(root).with_suffix("").parts)))
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and name.endswith("Routes") and kind.__module__ == module.__name__:
                blank: Any = object.__new__(kind)
                vars(blank).update(dev_auth="dev", _dev_auth="dev")  # so that /v1/dev/token is there
                found += blank.routes()
                if hasattr(blank, "metrics_route"):  # on this port, or on one of its own
                    found.append(blank.metrics_route())
    return found


def test_every_rest_route_is_on_the_page() -> None:
    routes = {f"{route.method} {route.path}" for route in route_table()}
    assert sorted(route for route in routes if f"`{route}`" not in PAGE) == []
    assert sorted(set(re.findall(r"`((?:GET|PUT|POST|PATCH|DELETE) /[^`]*)`", PAGE)) - routes - {"GET /v1/ws"}) == []


async def test_the_route_table_has_everything_that_is_served(gateway: Gateway) -> None:
    paths = (await http(gateway.port, "GET", "/openapi.json"))[2]["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert served and served <= {(route.method, route.path) for route in route_table()}


def test_every_error_code_has_its_row_and_every_close_code_is_named() -> None:
    assert "[errors.md](errors.md)" in PAGE
    assert [code for code in TABLE if f"`{code}`" not in PAGE] == []
    assert [code.value for code in Close if str(code.value) not in PAGE] == []


@pytest.mark.parametrize(
    "words",
    [
        f"| text | {bounds.TEXT_BYTES_MAX // 1024} KiB |",
        f"| frame, REST body | {bounds.FRAME_BYTES_MAX // 1024} KiB |",
        f"| members of a conversation | {bounds.MEMBERS_MAX:,} |",
        f"| `limit` of a page | {bounds.PAGE_MAX} |",
        f"| bytes of a page of history | {bounds.PAGE_BYTES_MAX // 1024 // 1024} MiB |",
        f"| head and trailers of a request | {bounds.HTTP_HEAD_BYTES_MAX // 1024} KiB |",
        f"| requests that wait on one HTTP connection | {bounds.HTTP_PIPELINED_MAX} |",
        f"| HTTP connections of a user on one node | {bounds.HTTP_CONNECTIONS_PER_USER_MAX} |",
        f"| an HTTP answer of which nothing is read | {bounds.HTTP_STALLED_S} s |",
        f"`read` for {bounds.ACKS_PER_SLOT} frames",
        f"`typing` for {bounds.ACKS_PER_SLOT} conversations",
        f"`read` for every {bounds.UNREAD_ROWS_PER_SLOT} entries",
        f"| `resume`, `acks` | {bounds.RESUME_CONVERSATIONS_MAX} conversations |",
        f"| `watch` | {bounds.WATCHED_MAX} conversations |",
        f"| `seqs` in one `message.read` | {bounds.READ_SEQS_MAX:,} |",
        f"| separate stretches that are read in one conversation | {bounds.READ_RANGES_MAX} |",
        f"| `mentions`, `files` of one message | {bounds.MENTIONS_MAX}, {bounds.FILES_PER_MESSAGE_MAX} |",
        f"| name of a user or a conversation | {bounds.NAME_CHARS_MAX} characters |",
        f"| requests under way on one socket | {bounds.IN_FLIGHT_PER_SOCKET_MAX} |",
        f"| malformed frames | {bounds.BAD_FRAMES_MAX} in {bounds.BAD_FRAMES_WINDOW_S} s |",
        f"| connections of a user on one node | {bounds.CONNECTIONS_PER_USER_MAX} |",
        f"silent for {bounds.PING_INTERVAL_S} s and closes it after {bounds.IDLE_S} s",
        f"within {bounds.CONNECT_S} s",
        f"({bounds.RESUME_ENTRIES_MAX} entries per conversation)",
        f"by itself after {bounds.TYPING_S:g} s",
        f"{bounds.MEMBER_CHANGE_USERS_MAX} people per entry",
        f"within {bounds.GAP_CLOSE_S:g} s",
    ],
)
def test_a_limit_on_the_page_is_the_limit_in_the_code(words: str) -> None:
    assert words in PAGE


def patterns_in(schema: Any) -> set[str]:
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    mine = {schema["pattern"]} if isinstance(schema, dict) and isinstance(schema.get("pattern"), str) else set()
    return mine.union(*map(patterns_in, parts))


def test_every_pattern_of_the_api_is_said_in_words_where_it_refuses() -> None:
    taken = [one for route in route_table() for one in (route.body, route.query) if one is not None]
    found = patterns_in([msgspec.json.schema(one) for one in (*taken, ClientFrame)])
    assert len(found) > 8 and found <= set(WORDS)
