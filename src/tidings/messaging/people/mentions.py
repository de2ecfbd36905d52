"""Mentions: whom a message mentions, as the log keeps it.

The author names users, or all members, or those who are here. The server asks once who is here, before it stores the
message, and stores the list: a later count gives the same number. All members are stored as EVERYBODY. So is a list
above HERE_MAX, because a row must hold it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from tidings.model import EVERYBODY, Content

HERE_MAX = 1_000  # users in the stored list of `mention: here`: 129 KB at most, a third of an item of DynamoDB

Online = Callable[[Iterable[str]], Awaitable[Mapping[str, bool]]]


def mentioned(content: Content | None, here: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The users whom a message with this content mentions; `here`: those who were online."""
    if content is None or content.only_sender:
        return ()
    if content.mention == "all" or len(here) > HERE_MAX:
        return (EVERYBODY,)
    return tuple(dict.fromkeys((*content.mentions, *here))) if here else content.mentions


async def who_is_here(online: Online, user_ids: Iterable[str]) -> tuple[str, ...]:
    """Those of the users who have a live lease now, on any node. Raises Unavailable."""
    return tuple(sorted(user_id for user_id, is_online in (await online(user_ids)).items() if is_online))
