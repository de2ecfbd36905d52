"""Which limit holds for whom: the setting, unless there is an override for the user, the user's role, or the API key.

The nearest one wins: a user's own before that of the role, an API key's own before that of its role. Who has which role
is known from the token or key that was verified last on this node. Everything is in memory, so asking is free;
overrides.py keeps it as the tables have it. limiter.py is the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidings.bounds import ROLES_KNOWN_MAX
from tidings.model import Override

CLASSES = ("send", "read", "typing", "connect", "http")
KEY_CLASS = "http"  # the one class that an API key has a budget of its own in


class Limit(msgspec.Struct, frozen=True):
    """At most `count` requests in any `window_s` seconds."""

    count: int
    window_s: int


class Limits:
    def __init__(self, defaults: Mapping[str, Limit | None]) -> None:
        self._defaults = defaults
        self._overrides: dict[tuple[str, str, str], Limit | None] = {}  # (scope, name, class)
        self._roles: dict[str, str] = {}
        self._key_names: dict[str, str] = {}  # the id under which a key's budget is kept -> its name

    def of(self, class_name: str, user_id: str) -> Limit | None:
        """None: no limit."""
        if self._overrides:
            for place in self._places(class_name, user_id):
                if place in self._overrides:
                    return self._overrides[place]
        return self._defaults[class_name]

    def _places(self, class_name: str, user_id: str) -> Iterable[tuple[str, str, str]]:
        name = self._key_names.get(user_id)
        yield ("user", user_id, class_name) if name is None else ("key", name, class_name)
        role = self._roles.get(user_id)
        if role is not None:
            yield "role", role, class_name

    def classes_of(self, user_id: str) -> Iterable[str]:
        return (KEY_CLASS,) if user_id in self._key_names else self._defaults

    def know(self, user_id: str, role: str | None) -> None:
        """A token of the user was verified: this is the role it names."""
        if role is None:
            self._roles.pop(user_id, None)
        elif self._roles.get(user_id) != role:
            if len(self._roles) >= ROLES_KNOWN_MAX:
                del self._roles[next(iter(self._roles))]
            self._roles[user_id] = role

    def payer(self, key_id: str, key_name: str, role: str, user_id: str | None) -> str:
        """Whose budget a request with an API key is on: the user's it acts for, unless the key has an override."""
        self._key_names[key_id] = key_name
        self._roles[key_id] = role
        has_own = ("key", key_name, KEY_CLASS) in self._overrides
        return key_id if user_id is None or has_own else user_id

    def install(self, overrides: Iterable[Override]) -> None:
        """All there are, in place of those before."""
        self._overrides = {(one.scope, one.name, one.class_name): _limit(one) for one in overrides}


def _limit(override: Override) -> Limit | None:
    return None if override.count is None else Limit(override.count, override.window_s)
