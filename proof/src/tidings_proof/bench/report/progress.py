"""Progress of a trial: a bar for each run on a terminal's stderr, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tidings_proof.bench.load.plan import Progress as Step


class Quiet:
    """Shows nothing."""

    def preparing(self, what: str) -> None: ...

    def progressed(self, name: str, progress: Step) -> None: ...


class Bars:
    """One bar for each run, and one line while the run is prepared."""

    def __init__(self, screen: Progress) -> None:
        self._screen = screen
        self._preparing = screen.add_task("starting", total=None, units="")
        self._runs: dict[str, TaskID] = {}

    def preparing(self, what: str) -> None:
        self._screen.update(self._preparing, description=f"preparing {what}", visible=True)

    def progressed(self, name: str, progress: Step) -> None:
        self._screen.update(self._preparing, visible=False)
        if name not in self._runs:
            self._runs[name] = self._screen.add_task(name, total=None, units="")
        total = None if progress.share is None else 1.0
        units = f"{progress.units:,}" if progress.units else ""
        what = f"{name}: {progress.phase}"
        self._screen.update(
            self._runs[name], description=what, total=total, completed=progress.share or 0.0, units=units
        )


@contextmanager
def bars(console: Console) -> Iterator[Bars | Quiet]:
    """Show bars on a terminal. They are gone when the block ends."""
    if not console.is_terminal:
        yield Quiet()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[units]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as screen:
        yield Bars(screen)
