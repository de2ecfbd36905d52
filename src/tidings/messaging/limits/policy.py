"""Limits: the limit that holds for a user or an API key in a class.

It is the setting, unless an override exists. The nearest override wins: a user's own before that of the user's role, a
key's own before that of its role. The role comes from the last token or key that this node verified. Everything is in
memory, so a lookup is free; overrides.py keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings.bounds import ROLES_KNOWN_MAX, Limit
from tidings.stores.tables.values import Override
from tidings.tasks import Recent

KEY_CLASS = "http"  # the only class with a budget for an API key itself


class Limits:
    def __init__(self, defaults: Mapping[str, Limit | None]) -> None:
        self._defaults = defaults
        self._overrides: dict[tuple[str, str, str], Limit | None] = {}  # (scope, name, class)
        self._roles = Recent[str, str](ROLES_KNOWN_MAX)
        self._key_names: dict[str, str] = {}  # id of a key's budget -> name of the key

    def of(self, class_name: str, user_id: str) -> Limit | None:
        """The limit; None: there is none."""
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
        """Remember the role that the last verified token of the user names."""
        if role is None:
            self._roles.pop(user_id, None)
        elif self._roles.get(user_id) != role:
            self._roles.put(user_id, role)

    def payer(self, key_id: str, key_name: str, role: str, user_id: str | None) -> str:
        """The id whose budget a request with an API key uses: the user it acts for, unless the key has an override."""
        self._key_names[key_id] = key_name
        self._roles.put(key_id, role)
        has_own = ("key", key_name, KEY_CLASS) in self._overrides
        return key_id if user_id is None or has_own else user_id

    def install(self, overrides: Iterable[Override]) -> None:
        """Replace all overrides."""
        self._overrides = {(one.scope, one.name, one.class_name): _limit(one) for one in overrides}


def _limit(override: Override) -> Limit | None:
    return None if override.count is None else Limit(override.count, override.window_s)
