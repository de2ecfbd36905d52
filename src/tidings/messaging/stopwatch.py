"""What the pipeline tells of itself: `Measures`, and a `Stopwatch` that times the stages of one batch.

send.py starts one for every batch and calls `lap` after each stage, in the order of a message: a lap ends a stage and
begins the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Observed(Protocol):
    def observe(self, value: float) -> None: ...


class Counted(Protocol):
    def inc(self, amount: float = 1) -> None: ...


class Measures(Protocol):
    """What the pipeline tells of itself."""

    @property
    def messages(self) -> Counted: ...
    @property
    def batch_size(self) -> Observed: ...
    @property
    def send_seconds(self) -> Observed: ...
    @property
    def stage_seconds(self) -> Mapping[str, Observed]: ...


class Stopwatch:
    __slots__ = ("_began_s", "_now_s", "_stages")

    def __init__(self, now_s: Callable[[], float], stages: Mapping[str, Observed]) -> None:
        self._now_s = now_s
        self._stages = stages
        self._began_s = now_s()

    def lap(self, stage: str) -> None:
        now_s = self._now_s()
        self._stages[stage].observe(now_s - self._began_s)
        self._began_s = now_s
