"""Worker: the process of one node below a supervisor.

It gets one end of a channel as a file descriptor, and its order as the first bytes there. It says `ready` when it
listens, or `failed` with the reason. When the channel ends the supervisor is dead, and the worker drains and leaves.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import struct
import sys
from dataclasses import dataclass

from tidings.config.settings import Settings
from tidings.config.values import SettingsError
from tidings.errors import Problem, StoreError
from tidings.gateway.server import loop_factory
from tidings.node.channel import Channel
from tidings.node.node import Node, Stop, open_node, prepare_the_interpreter, sharpen_the_timers
from tidings.node.siblings import Siblings
from tidings.telemetry.logs import configure_logs

log = logging.getLogger("tidings.node")


@dataclass(frozen=True)
class Order:
    """The settings of a worker, from the supervisor. `dead`: nodes that are known to be dead."""

    settings: Settings
    sources: dict[str, str]
    dead: tuple[str, ...]

    @property
    def node_id(self) -> str:
        return self.settings.node.id


class Worker:
    """The node of this process, as the supervisor may ask about it."""

    def __init__(self, order: Order, stopped: asyncio.Event) -> None:
        """`stopped`: the order to end. The worker sets it too, when the supervisor is dead."""
        self._order = order
        self._node: Node | None = None
        self._stopped = stopped

    async def run(self, link: socket.socket) -> int:
        channel = await Channel.over(link, self._answer)
        lifeline = asyncio.create_task(channel.run(), name="supervisor")
        lifeline.add_done_callback(lambda _: self._stopped.set())
        try:
            await self._serve(channel)
        except (StoreError, SettingsError, Problem, OSError) as error:
            await channel.ask("store" if isinstance(error, StoreError) else "failed", _reason(error))
            return 1
        finally:
            lifeline.cancel()
        return 0

    async def _serve(self, channel: Channel) -> None:
        order = self._order
        sharpen_the_timers()
        async with open_node(order.settings, None, order.sources, Siblings(channel), order.dead) as node:
            self._node = node
            node.core.events.leave_requested.add(self._stopped.set)
            prepare_the_interpreter()
            await channel.ask("ready")
            await self._stopped.wait()
            log.info("draining")

    async def _answer(self, what: str, text: str) -> str:
        assert self._node is not None, "a worker is asked after it said that it is ready"
        if what == "page":
            return self._node.core.metrics.render().decode()
        return "draining" if self._node.gateway.is_draining else "ready"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())


def send_order(link: socket.socket, order: Order) -> None:
    """Write the order before the worker exists: it is small, so the kernel holds it."""
    raw = pickle.dumps(order)
    link.sendall(struct.pack("!I", len(raw)) + raw)


def read_order(link: socket.socket) -> Order:
    """Read the order, which this very program wrote, and not a byte more."""
    (size,) = struct.unpack("!I", link.recv(4, socket.MSG_WAITALL))
    order: Order = pickle.loads(link.recv(size, socket.MSG_WAITALL))
    return order


def main() -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner, socket.socket(fileno=int(sys.argv[1])) as link:
        order = read_order(link)
        log_settings = order.settings.log
        configure_logs(log_settings.format, log_settings.level, order.node_id)
        link.setblocking(False)
        return runner.run(_run(order, link))


async def _run(order: Order, link: socket.socket) -> int:
    return await Worker(order, Stop()).run(link)


if __name__ == "__main__":
    sys.exit(main())
