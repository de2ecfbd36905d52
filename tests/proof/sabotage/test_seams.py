"""A plant that finds its place gone, or changed, fails loudly."""

from __future__ import annotations

import pytest

from tidings_proof.sabotage.seams import replace


class Server:
    limit = 3

    def push(self, entry: int) -> int:
        return entry

    async def write(self, entry: int) -> int:
        return entry


def test_what_is_there_is_replaced() -> None:
    class Own(Server):
        pass

    replace(Own, "push", lambda self, entry: entry + 1)
    replace(Own, "limit", 4)
    assert (Own().push(1), Own.limit, Server().push(1)) == (2, 4, 1)


def test_what_is_gone_is_named() -> None:
    with pytest.raises(AssertionError, match=r"Server\.pull is gone"):
        replace(Server, "pull", lambda self: None)


def test_what_is_called_in_another_way_is_named() -> None:
    with pytest.raises(AssertionError, match=r"Server\.push takes other arguments"):
        replace(Server, "push", lambda self: None)
    with pytest.raises(AssertionError, match=r"Server\.write has changed its kind"):
        replace(Server, "write", lambda self, entry: None)
