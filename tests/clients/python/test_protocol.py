"""The client repeats structs, limits and errors of the server; here they are compared, so that they cannot drift."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

import tidings
import tidings_client
from tests.support.paths import ROOT
from tidings import bounds as server_bounds
from tidings import errors as server_errors
from tidings.protocol import bodies, client_frames, own_bodies, people_bodies, server_frames
from tidings_client import bounds, errors, forms, people, values
from tidings_client.beside import requests, structs
from tidings_client.connection import decoding

Struct = type[msgspec.Struct]
PACKAGE = ROOT / "clients" / "python" / "src" / "tidings_client"
FRAMES = {frame.__struct_config__.tag: frame for frame in get_args(client_frames.ClientFrame)}
EVENTS = {frame.__struct_config__.tag: frame for frame in server_frames.SERVER_FRAMES}
BODIES: dict[str, str] = {  # the client's name -> the server's, where they differ
    "MemberChange": "MemberEntryBody",
    "HistoryPage": "HistoryBody",
    "InboxPage": "InboxBody",
    "MembersPage": "MembersBody",
    "ReactionCount": "ReactionCount",
    "ReactorsPage": "ReactionsBody",
    "ThreadSummary": "ThreadBeside",
    "QuietHours": "QuietBody",
    **{
        name: f"{name}Body"
        for name in (
            "Message", "InboxRow", "Sent", "ReadState", "Member", "Conversation", "Receipts", "Totals", "Budget",
            "File", "RateLimits", "Profile", "Profiles", "Block", "Blocks", "Preferences", "Revoked",
            "Reacted", "Reactors", "OwnDraft", "LastMessage",
        )
    },
}  # fmt: skip
PLACES = (
    bodies,
    own_bodies,
    people_bodies,
)  # modules with bodies that the client repeats
FACTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
OF_THE_CLIENT = {
    values.Connected,
    values.Interrupted,
    values.Nothing,
    people.Person,
    people.PresencePage,
    people.PersonFound,
    people.People,
}


def structs_of(module: Any) -> list[Struct]:
    found = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return [kind for kind in found if kind.__module__ == module.__name__ and not kind.__name__.startswith("_")]


LEFT_OUT = {  # fields of answers that are left out where they have nothing to say
    name
    for place in (bodies, people_bodies, own_bodies, server_frames)
    for kind in structs_of(place)
    for name, hint in get_type_hints(kind).items()
    if msgspec.UnsetType in get_args(hint)
}


def shape(hint: Any, *, is_answer: bool) -> Any:
    """A type that can be compared. In an answer a word of the server may be new, so a Literal of words is a str."""
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return fields_of(hint, is_answer=is_answer)
    if origin is Literal and is_answer and all(isinstance(word, str) for word in inner):
        return str
    if origin is None or origin is Literal:
        return hint
    if hasattr(hint, "__metadata__"):
        facts = [[getattr(meta, name) for name in FACTS] for meta in hint.__metadata__]
        return ("annotated", shape(inner[0], is_answer=is_answer), facts)
    parts = [shape(one, is_answer=is_answer) for one in inner]
    is_union = origin is Union or origin.__name__ == "UnionType"
    return ("union", sorted(parts, key=repr)) if is_union else (origin, parts)


def fields_of(kind: Struct, *, is_answer: bool) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    typed = [(field, hints[field.name]) for field in msgspec.structs.fields(kind)]
    if is_answer:
        typed = [(field, _said(hint) if field.name in LEFT_OUT else hint) for field, hint in typed]
    return {field.encode_name: shape(hint, is_answer=is_answer) for field, hint in typed}


def _said(hint: Any) -> Any:
    """The type of a field where it is there. The client may give it a default of its own."""
    inner = [one for one in get_args(hint) if one not in (msgspec.UnsetType, type(None))]
    is_union = get_origin(hint) in (Union, UnionType)
    said = Union[tuple(inner)] if is_union and inner else hint  # noqa: UP007
    return bool if said == Literal[True] else said


def _but_null(form: Any) -> Any:
    if not isinstance(form, tuple) or form[0] != "union":
        return form
    rest = [one for one in form[1] if one is not type(None)]
    return rest[0] if len(rest) == 1 else ("union", rest)


def server_struct(kind: Struct) -> Struct:
    tag = kind.__struct_config__.tag
    if tag is not None:
        found: Struct = {**EVENTS, **FRAMES}[tag] if kind in REQUESTS else EVENTS[tag]
        return found
    name = BODIES.get(kind.__name__, kind.__name__)
    made: Struct = next(getattr(place, name) for place in PLACES if hasattr(place, name))
    return made


REQUESTS = [kind for kind in (*structs_of(forms), *structs_of(requests)) if kind is not forms.Frame]
_ANSWERED = [kind for module in (values, people, structs) for kind in structs_of(module)]
ANSWERS = [kind for kind in _ANSWERED if kind not in OF_THE_CLIENT]


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: str(kind.__name__))
def test_a_request_has_only_fields_that_the_server_reads_in_the_same_form(kind: Struct) -> None:
    ours, theirs = (fields_of(one, is_answer=False) for one in (kind, server_struct(kind)))
    # The server takes null where a field may be left out. The client leaves it out.
    assert ours == {
        name: theirs.get(name) if theirs.get(name) == form else _but_null(theirs.get(name))
        for name, form in ours.items()
    }
    needed = {field.encode_name for field in msgspec.structs.fields(server_struct(kind)) if field.required}
    assert needed <= set(ours)


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: str(kind.__name__))
def test_an_answer_or_event_has_every_field_of_the_server_in_the_same_form(kind: Struct) -> None:
    assert fields_of(kind, is_answer=True) == fields_of(server_struct(kind), is_answer=True)


def test_every_event_of_the_server_is_known_to_the_client() -> None:
    known = {kind.__struct_config__.tag for kind in ANSWERS}
    assert set(EVENTS) - known == {"ok", "pong", "error"}  # the answers that any request may get
    assert fields_of(errors.Refusal, is_answer=True) == fields_of(bodies.ErrorFacts, is_answer=True)


def test_every_frame_of_the_protocol_is_known_to_the_client() -> None:
    assert {kind.__struct_config__.tag for kind in REQUESTS} - {None} == set(FRAMES)


def test_a_difference_is_noticed() -> None:
    class One(msgspec.Struct):
        seq: forms.Seq
        kind: Literal["a"]

    class Other(msgspec.Struct):
        seq: int
        kind: Literal["a", "b"]

    ours, theirs = fields_of(One, is_answer=True), fields_of(Other, is_answer=True)
    assert ours["seq"] != theirs["seq"] and ours["kind"] == theirs["kind"]
    assert fields_of(One, is_answer=False)["kind"] != fields_of(Other, is_answer=False)["kind"]


def test_the_limits_of_the_protocol_are_the_servers() -> None:
    source = (PACKAGE / "bounds.py").read_text("utf-8")
    names = re.findall(r"^([A-Z_]+) = ", source[: source.index("# --- the connection")], re.MULTILINE)
    assert len(names) == 15
    assert {name: getattr(bounds, name) for name in names} == {name: getattr(server_bounds, name) for name in names}


def test_the_errors_of_the_protocol_are_the_servers() -> None:
    ours = {code: (kind.status, kind.is_temporary) for code, kind in errors.PROBLEMS.items()}
    assert ours == {code: (rule.status, rule.is_temporary) for code, rule in server_errors.TABLE.items()}
    assert {(code.name, int(code)) for code in errors.Close} <= {(code.name, int(code)) for code in server_errors.Close}
    assert {code for code in server_errors.Close if code >= 4500} <= set(errors.STOP_REASONS)
    meanings = {int(code): words for code, words in server_errors.CLOSE_MEANING.items()}
    assert {int(code): words for code, words in errors.STOP_REASONS.items()}.items() <= meanings.items()


def test_a_newer_server_is_understood() -> None:
    message = {
        "seq": 1, "kind": "reaction", "message_id": None, "sender_id": "bob", "text": None, "ts": None, "sent_at": 2,
        "deleted": False, "edited_at": None, "target_seq": 1, "member": None, "emoji": "+1",
    }  # fmt: skip
    frame = {"type": "message.new", "conversation_id": "c1", "message": message, "unread_count": 1, "mood": "good"}
    event = decoding.event_of(json.dumps(frame).encode())
    assert isinstance(event, values.MessageNew) and event.message.kind == "reaction"


def test_the_client_imports_nothing_of_the_server() -> None:
    sources = {file.name: file.read_text("utf-8") for file in PACKAGE.rglob("*.py")}
    assert [name for name, source in sources.items() if re.search(r"^\s*(from|import) tidings[. ]", source, re.M)] == []


def test_the_dependencies_are_what_it_imports() -> None:
    source = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    imported = set(re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE))
    declared = set(re.findall(r'"(\w+)[>~=]', re.findall(r"^dependencies = .*$", PROJECT, re.MULTILINE)[0]))
    assert declared == imported & set(importlib.metadata.packages_distributions()) - {"tidings_client"}


PROJECT = (ROOT / "clients" / "python" / "pyproject.toml").read_text("utf-8")


def test_server_and_clients_have_one_version() -> None:
    package = json.loads(Path(ROOT / "clients" / "js" / "package.json").read_text("utf-8"))
    assert tidings_client.__version__ == tidings.__version__ == package["version"]
    assert 'dynamic = ["version"]' in PROJECT and "src/tidings_client/__init__.py" in PROJECT
