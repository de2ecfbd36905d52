"""Keys: one slot per user, one per conversation, and none that an id could forge."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.ids import is_id
from tidings.stores.keyspace.keys import Keys

ids = st.from_regex(r"[A-Za-z0-9_.@-]{1,128}", fullmatch=True).filter(is_id)


def tag(key: str) -> str:
    """What decides the slot."""
    return key[key.index("{") + 1 : key.index("}")]


def builders(keys: Keys, first: str) -> list[Callable[..., str]]:
    methods = [method for name, method in inspect.getmembers(keys, inspect.ismethod) if not name.startswith("_")]
    return [method for method in methods if next(iter(inspect.signature(method).parameters), "") == first]


def build(method: Callable[..., str], first: Any) -> str:
    rest: dict[str, Any] = {
        "conversation_id": "c",
        "user_id": "u",
        "name": "muted",
        "class_name": "send",
        "generation": 1,
        "minute": 5,
        "node_id": "n",
    }
    names = list(inspect.signature(method).parameters)[1:]
    return method(first, *(rest[name] for name in names))


@given(ids)
def test_all_keys_of_a_user_and_all_of_a_conversation_share_a_slot(id_: str) -> None:
    assert is_id(id_)
    for first in ("user_id", "conversation_id"):
        assert {tag(build(method, id_)) for method in builders(Keys(), first)} == {id_}


@given(ids, ids)
def test_no_two_ids_share_a_key(one: str, other: str) -> None:
    keys = Keys("tenant:")
    for first in ("user_id", "conversation_id"):
        mine = {build(method, one) for method in builders(keys, first)}
        theirs = {build(method, other) for method in builders(keys, first)}
        assert (mine == theirs) == (one == other) and (one == other or not mine & theirs)


def test_every_kind_of_key_has_a_name_of_its_own() -> None:
    keys = Keys()
    methods = itertools.chain.from_iterable(
        builders(keys, first) for first in ("user_id", "conversation_id", "node_id", "shard")
    )
    names = [build(method, 1 if "shard" in inspect.signature(method).parameters else "x") for method in methods]
    assert len(set(names)) == len(names)
    beside = ("inbox:", "tally:")  # a filter stands beside the inbox, and a set beside its tally, in their slot
    alike = {name for name in names if name.startswith(beside)}
    assert len({name.partition("{")[0] for name in names}) == len(names) - len(alike) + len(beside)


def test_the_prefix_of_a_tenant_stands_in_front_of_everything() -> None:
    keys = Keys("acme.")
    assert keys.nodes == "acme.nodes" and keys.inbox("u") == "acme.inbox:{u}"
    assert keys.unread("u", "c") == "acme.unread:{u}:c" and keys.sent("c", 7) == "acme.sent:{c}:7"
    for first in ("user_id", "conversation_id"):
        assert all(build(method, "x").startswith("acme.") for method in builders(keys, first))


@pytest.mark.parametrize("prefix", ["a{b", "a}"])
def test_a_prefix_cannot_decide_a_slot(prefix: str) -> None:
    with pytest.raises(AssertionError):
        Keys(prefix)
