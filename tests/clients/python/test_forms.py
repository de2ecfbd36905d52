from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidings.testing import TestServer
from tidings_client import Account, Server, forms
from tidings_client.bounds import FRAME_BYTES_MAX
from tidings_client.errors import BadCursor, BadRequest, Problem, TooLarge
from tidings_client.forms import (
    ConversationPatch,
    Frame,
    InboxQuery,
    NewMembers,
    NewMessage,
    Ping,
    Read,
    Send,
    Watch,
    body_of,
    path_of,
    query_of,
)

BAD_IDS: list[Any] = [
    "c1/../../inbox", "../inbox", "c1?limit=1", "c1#x", "c1%2f..", "a b", "a,b", "a\n", "\x00", "é", "\ud800", "",
    "x" * 129, "x" * 70_000, None, b"c1", ".", "..",
]  # fmt: skip

Ask = Callable[[Account, Any], Awaitable[object]]
IN_PATHS: dict[str, list[Ask]] = {
    "conversation": [lambda a, bad: a.conversation(bad)],
    "rename": [lambda a, bad: a.rename(bad, "n")],
    "delete_conversation": [lambda a, bad: a.delete_conversation(bad)],
    "add": [lambda a, bad: a.add(bad, ["bob"])],
    "remove": [lambda a, bad: a.remove(bad, "bob"), lambda a, bad: a.remove("c1", bad)],
    "set_role": [lambda a, bad: a.set_role(bad, "bob", "admin"), lambda a, bad: a.set_role("c1", bad, "admin")],
    "send": [lambda a, bad: a.send(bad, "t")],
    "upload": [lambda a, bad: a.upload(bad, __file__)],
    "files": [lambda a, bad: a.files(bad)],
    "file_link": [lambda a, bad: a.file_link(bad, "f1"), lambda a, bad: a.file_link("c1", bad)],
    "download": [lambda a, bad: a.download(bad, "f1", "x"), lambda a, bad: a.download("c1", bad, "x")],
    "edit": [lambda a, bad: a.edit(bad, 1, "t"), lambda a, bad: a.edit("c1", bad, "t")],
    "delete": [lambda a, bad: a.delete(bad, 1), lambda a, bad: a.delete("c1", bad)],
    "receipts": [lambda a, bad: a.receipts(bad, 1), lambda a, bad: a.receipts("c1", bad)],
    "message": [lambda a, bad: a.message(bad, 1), lambda a, bad: a.message("c1", bad)],
    "page": [lambda a, bad: a.page(bad)],
    "history": [lambda a, bad: anext(a.history(bad))],
    "flag": [lambda a, bad: a.flag(bad, muted=True)],
    "react": [lambda a, bad: a.react(bad, 1, "ok")],
    "unreact": [lambda a, bad: a.unreact(bad, 1, "ok")],
    "reactions": [lambda a, bad: a.reactions(bad, 1)],
    "mark_read": [lambda a, bad: a.mark_read(bad), lambda a, bad: a.mark_read(bad, seqs=[1])],
    "mark_unread": [lambda a, bad: a.mark_unread(bad, 1)],
    "profile": [lambda a, bad: a.profile(bad)],
    "profiles": [lambda a, bad: a.profiles(bad)],
    "members": [lambda a, bad: a.members(bad)],
    "set_profile": [lambda a, bad: a.set_profile(bad, name="n")],
    "set_picture": [lambda a, bad: a.set_picture(bad, b"")],
    "block": [lambda a, bad: a.block(bad)],
    "unblock": [lambda a, bad: a.unblock(bad)],
    "accept": [lambda a, bad: a.accept(bad)],
}
ELSEWHERE: dict[str, list[Ask]] = {
    "create": [lambda a, bad: a.create("group", ["bob", bad])],
    "direct": [lambda a, bad: a.direct(bad)],
    "add": [lambda a, bad: a.add("c1", [bad])],
    "send": [lambda a, bad: a.send("c1", "t", message_id=bad or "m.1")],  # "" and None: the client makes one
    "presence": [lambda a, bad: a.presence(bad), lambda a, bad: a.presence("c1", [bad])],
    "profiles": [lambda a, bad: a.profiles("c1", [bad])],
    "explain_unread": [lambda a, bad: a.explain_unread(bad)],
    "search": [lambda a, bad: a.search("x", conversation_id=bad or "a b")],  # None: in all of them
}
OF_A_SERVER: dict[str, Callable[[Server, Any], Awaitable[object]]] = {
    "user": lambda s, bad: s.user(bad),
    "put_user": lambda s, bad: s.put_user(bad, name="n"),
    "revoke": lambda s, bad: s.revoke(bad),
    "account": lambda s, bad: s.account(bad).inbox(),
    "replay_webhook": lambda s, bad: s.replay_webhook("wh_1", bad, 1),
}


class Visits:
    """A server that only counts who comes."""

    def __init__(self) -> None:
        self.count = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        writer.close()


@pytest.fixture
async def visits() -> AsyncIterator[Visits]:
    visits = Visits()
    async with await asyncio.start_server(visits.serve, "127.0.0.1", 0) as listening:
        visits.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield visits


def taking_ids(kind: type) -> set[str]:
    """The public methods with a parameter for an id."""
    methods = inspect.getmembers(kind, inspect.isfunction)
    ids = {"conversation_id", "user_id", "user_ids", "members", "message_id"}
    return {name for name, one in methods if name[0] != "_" and ids & set(inspect.signature(one).parameters)}


def test_no_method_that_takes_an_id_is_left_out_here() -> None:
    assert taking_ids(Account) == {*IN_PATHS, *ELSEWHERE}
    assert taking_ids(Server) == {*OF_A_SERVER}


@pytest.mark.parametrize("method", IN_PATHS)
async def test_what_is_not_an_id_never_becomes_a_path(method: str, visits: Visits) -> None:
    async with Server(visits.url, "k") as backend:
        for ask in IN_PATHS[method]:
            for bad in BAD_IDS:
                with pytest.raises(BadRequest):
                    await ask(backend.account("alice"), bad)
    assert visits.count == 0


@pytest.mark.parametrize("method", ELSEWHERE)
async def test_what_is_not_an_id_is_never_sent(method: str, visits: Visits) -> None:
    async with Server(visits.url, "k") as backend:
        for ask in ELSEWHERE[method]:
            for bad in BAD_IDS:
                with pytest.raises(BadRequest):
                    await ask(backend.account("alice"), bad)
    assert visits.count == 0


@pytest.mark.parametrize("method", OF_A_SERVER)
async def test_a_backend_sends_no_id_that_is_none(method: str, visits: Visits) -> None:
    async with Server(visits.url, "k") as backend:
        for bad in BAD_IDS:
            with pytest.raises(BadRequest):
                await OF_A_SERVER[method](backend, bad)
    assert visits.count == 0


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda a: a.send("c1", "x" * 20_000), TooLarge),
        (lambda a: a.send("c1", "\x01" * 16_000), TooLarge),
        (lambda a: a.send("c1", "\ud800"), BadRequest),
        (lambda a: a.send("c1", "t", ts=-1), BadRequest),
        (lambda a: a.edit("c1", 1, "x" * 20_000), TooLarge),
        (lambda a: a.edit("c1", -1, "t"), BadRequest),
        (lambda a: a.receipts("c1", 2**53), BadRequest),
        (lambda a: a.rename("c1", "n" * 5_000), BadRequest),
        (lambda a: a.set_profile("alice", avatar_url="javascript:1"), BadRequest),
        (lambda a: a.set_role("c1", "bob", "king"), BadRequest),
        (lambda a: a.add("c1", []), BadRequest),
        (lambda a: a.inbox(cursor="x" * 70_000), BadCursor),
        (lambda a: a.inbox(cursor="\ud800"), BadRequest),
        (lambda a: a.inbox(limit=0), BadRequest),
        (lambda a: a.page("c1", before_seq=1, after_seq=1), BadRequest),
        (lambda a: a.page("c1", before_seq=-1), BadCursor),
        (lambda a: a.mark_unread("c1", -1), BadRequest),
    ],
)
async def test_sizes_and_numbers_are_checked_before_anything_is_sent(
    ask: Callable[[Account], Awaitable[object]], kind: type[Problem], visits: Visits
) -> None:
    async with Server(visits.url, "k") as backend:
        with pytest.raises(kind):
            await ask(backend.account("alice"))
    assert visits.count == 0


def test_a_path_is_made_of_words_ids_and_seqs() -> None:
    assert path_of("conversations", "c-1.x@y_z", "messages", 7) == "/v1/conversations/c-1.x@y_z/messages/7"
    assert path_of("users", "...") == "/v1/users/..."
    with pytest.raises(BadRequest, match=r"not an id: 'c1/\.\./\.\./inbox'"):
        path_of("conversations", "c1/../../inbox")


def test_a_query_and_a_body_are_what_was_asked() -> None:
    assert query_of(InboxQuery(5)) == {"limit": 5}
    assert query_of(InboxQuery(5, "x y")) == {"limit": 5, "cursor": "x y"}
    assert msgspec.json.decode(body_of(ConversationPatch(None))) == {"name": None}
    assert msgspec.json.decode(body_of(NewMessage("m1", "hi"))) == {"message_id": "m1", "text": "hi"}
    with pytest.raises(BadRequest, match="user_ids"):
        body_of(NewMembers(["a/b"]))


async def test_ids_of_every_allowed_letter_reach_the_node_as_they_are(server: TestServer) -> None:
    backend = server.server()
    for user_id in ("a.b@c-d_e", "...", "@", "x" * 128):
        assert (await backend.put_user(user_id, name="n")).user_id == user_id
        assert (await backend.user(user_id)).name == "n"


@pytest.mark.parametrize(
    "ask",
    [
        lambda a: a.create("group", "bob"),
        lambda a: a.add("c1", "bob"),
        lambda a: a.presence("c1", "bob"),
        lambda a: a.mark_read("c1", 1, seqs=[1]),
        lambda a: a.send("c1", "t", message_id=""),
        lambda a: a.send("c1", b"t"),
    ],
)
async def test_what_nobody_means_is_refused(ask: Callable[[Account], Awaitable[object]], visits: Visits) -> None:
    async with Server(visits.url, "k") as backend, asyncio.timeout(60):
        with pytest.raises(BadRequest):
            await ask(backend.account("alice"))
    assert visits.count == 0


@pytest.mark.parametrize(
    ("key", "kind"), [(None, TypeError), (5, TypeError), ("tk_1\n", ValueError), ("ké", ValueError)]
)
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^api_key (?!.*tk_1)"):
        Server("http://127.0.0.1:1", key)


MISTAKEN: Any = [
    Send(conversation_id="c1", message_id="m1", text=b"t"),  # type: ignore[arg-type]
    Send(conversation_id="c1", message_id=UUID(int=1), text="t"),  # type: ignore[arg-type]
    Send(conversation_id="c1", message_id="m1", text=datetime(2026, 1, 1)),  # type: ignore[arg-type]
    Read(conversation_id="c1", seqs=[True]),
]


@pytest.mark.parametrize("frame", MISTAKEN)
def test_what_would_become_another_text_on_the_wire_is_refused(frame: Frame) -> None:
    with pytest.raises(BadRequest, match=r"Expected `\w+`, got `\w+`"):
        forms.check(frame)


def test_a_frame_that_would_close_the_socket_is_refused_before_it_is_sent() -> None:
    assert json.loads(forms.encode(Ping(id=1))) == {"type": "ping", "id": 1}
    text = "\x01" * (FRAME_BYTES_MAX // 6)  # six bytes each on the wire
    with pytest.raises(TooLarge):
        forms.encode(Send(conversation_id="c1", message_id="m1", text=text))


@pytest.mark.parametrize(
    "frame",
    [
        Send(conversation_id="c1/..", message_id="m1", text="t"),
        Send(conversation_id="c1", message_id="m.1", text="t"),
        Send(conversation_id="c1", message_id="m1", text="\ud800"),
        Read(conversation_id="c1"),
        Watch(conversation_ids=["a b"]),
    ],
)
def test_a_frame_that_the_server_would_refuse_is_refused_before_it_is_sent(frame: Frame) -> None:
    with pytest.raises(BadRequest):
        forms.check(frame)
