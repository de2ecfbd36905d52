"""Stores that fail when a test says so, a clock that a test turns, and nodes on them.

The stores below are the real ones: a fault only loses a request before it arrives, loses its answer, or holds it up.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tidings import wiring
from tidings.clock import Clock
from tidings.config import Node, Settings
from tidings.errors import Problem, Throttled, Unavailable
from tidings.messaging.drafts import Draft
from tidings.model import Close, Event, Sent  # type: ignore[attr-defined]
from tidings.stores.calls import Call
from tidings.stores.ports import Group, Refused
from tidings.stores.scripts import SOURCES
