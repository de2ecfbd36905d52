"""Ids: the characters that an id of a user, a conversation or a message may have.

An id is a part of keys, paths and file names, so characters that mean something there are not allowed.
"""

from __future__ import annotations

import re

from tidings.bounds import ID_CHARS_MAX, MESSAGE_ID_CHARS_MAX

# `(?![\s\S])` is the end of the text in every dialect; `$` would let a trailing newline through in Python.
_END = r"(?![\s\S])"
# `.` and `..` could not be named in a path.
ID_PATTERN = rf"^(?!\.{{1,2}}{_END})[A-Za-z0-9_.@-]{{1,{ID_CHARS_MAX}}}{_END}"
USER_ID_PATTERN = ID_PATTERN.replace("_.@-", "_.@|+:=~-")  # identity providers make ids such as `auth0|5f7c`
MESSAGE_ID_PATTERN = rf"^[A-Za-z0-9_-]{{1,{MESSAGE_ID_CHARS_MAX}}}{_END}"
_ID = re.compile(ID_PATTERN)
_USER_ID = re.compile(USER_ID_PATTERN)
_MESSAGE_ID = re.compile(MESSAGE_ID_PATTERN)


def is_id(text: str) -> bool:
    """Say whether the text is the id of a conversation, device or node: nothing in it has a meaning in a key."""
    return _ID.match(text) is not None


def is_user_id(text: str) -> bool:
    """Say whether the text is a user id. It has no braces, spaces, commas, `#` or `/`: keys, lists and paths use those.

    A user id may have colons. So a composite of it has the user id last, or another part last that has no colon."""
    return _USER_ID.match(text) is not None


def is_message_id(text: str) -> bool:
    return _MESSAGE_ID.match(text) is not None
