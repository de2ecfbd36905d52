"""The limits of imports and exports, each with its reason."""

from __future__ import annotations

EXPORTS_MAX = 4  # exports of people that a node makes at a time: each reads whole conversations
EXPORTS_PER_USER_MAX = 1  # the same of one person
IMPORTS_AT_ONCE = 8  # conversations written side by side: they share commits
IMPORTED_TOGETHER = 64  # members or records written side by side
