"""The library: a script is called by the hash of its text, with its keys counted and its epoch in its place."""

from __future__ import annotations

import hashlib

import pytest

from tidings.clock import Clock
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.scripts.library import Library
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess


def test_a_call_names_the_script_by_the_hash_of_its_text() -> None:
    library = Library(["receipts_build", "session_release"])
    assert set(library.sources) == {"receipts_build", "session_release"}
    call = library.call("session_release", ("k1", "k2"), ("x", 7), int, has_epoch=False)
    sha = hashlib.sha1(library.sources["session_release"].encode()).hexdigest().encode()
    assert call.words == (b"EVALSHA", sha, 2, "k1", "k2", "x", 7)
    assert (call.key, call.epoch_at, call.parse("5")) == ("k1", None, 5)


def test_the_epoch_goes_between_keys_and_arguments() -> None:
    call = Library(["receipts_build"]).call("receipts_build", ("k1", "k2", "k3"), (9, 60), int)
    assert call.epoch_at == 6
    words = [*call.words[: call.epoch_at], "epoch", *call.words[call.epoch_at :]]
    assert words[3:] == ["k1", "k2", "k3", "epoch", 9, 60]


def test_a_script_that_does_not_exist_is_noticed_when_the_library_is_made() -> None:
    with pytest.raises(FileNotFoundError):
        Library(["no_such_script"])


def test_what_several_scripts_decide_alike_is_one_text() -> None:
    sources = Library(["inbox_page", "unread_state"]).sources
    function = "local function is_whole("
    assert all(text.startswith("#!lua\n") and text.count(function) == 1 for text in sources.values())
    assert not any("-- include" in text for text in sources.values())


async def test_a_server_knows_the_script_by_the_same_hash(valkey: ValkeyProcess) -> None:
    library = Library(["session_release"])
    keyspace = await open_keyspace(valkey.url, (), Clock())
    try:
        text = library.sources["session_release"]
        sha = await keyspace.one(plain("", b"SCRIPT", b"LOAD", text))
        call = library.call("session_release", ("library.k",), ("phone", "n:1", 5, 60), int, has_epoch=False)
        assert call.words[1] == sha and await keyspace.one(call) == 1
    finally:
        await keyspace.close()
