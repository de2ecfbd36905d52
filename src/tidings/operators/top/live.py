"""Live view: draws views on a terminal until q or Ctrl-C, or prints one view for people or as a line of JSON.

A terminal that cannot move its cursor (TERM=dumb) gets one view below the other. Other terminals use their second
screen, so the first screen is unchanged afterwards, and the keyboard is restored.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import msgspec
from rich.console import Console, Group
from rich.live import Live

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.operators.top.screen import lines
from tidings.operators.top.servers import watch_servers
from tidings.operators.top.watch import View, Watch, Watched, local_url, open_client

Show = Callable[[str], None]


def run(settings: Settings, urls: Sequence[str], interval_s: float, *, show: Show | None, is_json: bool) -> int:
    """Returns the exit code. Without `show` it draws; with `show` it prints one view, for people or as JSON."""
    try:
        return asyncio.run(_run(settings, urls, interval_s, show, is_json))
    except KeyboardInterrupt:  # the usual way to end it
        return 0


async def _run(settings: Settings, urls: Sequence[str], interval_s: float, show: Show | None, is_json: bool) -> int:
    async with _open_watch(settings, urls) as watch:
        first = await watch.look()  # the next view is compared with this one
        if show is None:
            return await _draw(watch, first, interval_s)
        return await _print(watch, interval_s, show, is_json)


async def _print(watch: Watch, interval_s: float, show: Show, is_json: bool) -> int:
    await asyncio.sleep(interval_s)
    view = await watch.look()
    show(json.dumps(msgspec.to_builtins(view)) if is_json else "\n".join(line.plain for line in lines(view)))
    return 1 if view.is_lost else 0


@asynccontextmanager
async def _open_watch(settings: Settings, urls: Sequence[str]) -> AsyncIterator[Watch]:
    clock = Clock()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_client())
        nodes = [Watched(url, client, clock) for url in urls or [local_url(settings)]]
        servers = await stack.enter_async_context(watch_servers(settings, clock))
        yield Watch(nodes, servers, clock)


async def _draw(watch: Watch, view: View, interval_s: float) -> int:
    with _quit_key() as quit, _screen() as put:
        while not quit.is_set():
            put(view)
            try:
                async with asyncio.timeout(interval_s):
                    await quit.wait()
            except TimeoutError:
                view = await watch.look()
    return 0


@contextmanager
def _screen() -> Iterator[Callable[[View], None]]:
    console = Console()
    if console.is_dumb_terminal:
        yield lambda view: console.print(*lines(view, console.height, "q quits"), "", sep="\n")
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda view: live.update(Group(*lines(view, console.height, "q quits")), refresh=True)


@contextmanager
def _quit_key() -> Iterator[asyncio.Event]:
    """An event that q or Ctrl-C sets. A reading under way ends by itself: nothing is cancelled in the middle."""
    quit, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, quit.set)
    try:
        with _keys(loop, quit):
            yield quit
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _keys(loop: asyncio.AbstractEventLoop, quit: asyncio.Event) -> Iterator[None]:
    """Read keys as they are pressed, and restore the terminal afterwards."""
    if not sys.stdin.isatty():
        yield  # only Ctrl-C ends it
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed() -> None:
        if os.read(keyboard, 1) in (b"q", b"Q", b""):
            quit.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, pressed)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
