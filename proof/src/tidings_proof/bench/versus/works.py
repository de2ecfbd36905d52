"""The works: each is prepared once on a server and then measured in rounds. A figure belongs to a row of the table.

A work returns None for a server that does not have it. All figures are of CPU of all the server's processes, unless the
row names another unit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidings_proof.bench.load.plan import AnyLoad, Channel, Measured, Plan, Readers, measure
from tidings_proof.bench.versus.rivals import PAGE, Server, Sizes

Figures = dict[str, float]  # row -> figure
Turn = Callable[[int], Figures]  # one measurement, in the round of this number
WORKS = ("send", "rate", "history", "inbox", "fanout", "idle")


def rows_of(sizes: Sizes) -> dict[str, str]:
    """The rows of the table in their order, with their words."""
    fanouts = {f"fanout_{count}": f"fan-out, {count:,} members online: us a delivery" for count in sizes.members}
    return {
        "send": "1:1, saturated: us a message",
        "rate": f"1:1 at {sizes.rate:g}/s: us a message",
        "rate_p50": f"1:1 at {sizes.rate:g}/s: p50 ms",
        "history": f"history page of {PAGE}: us",
        "history_ws": f"history page of {PAGE} over WebSocket: us",
        "inbox": f"inbox of {sizes.inbox} with counts: us",
        "inbox_bytes": f"inbox of {sizes.inbox} with counts: bytes",
        **fanouts,
        "connect": "sign-in of a connection: ms",
        "idle": f"{sizes.connections:,} idle connections: % of a core",
        "memory": "an idle connection: KiB",
    }


def prepared(work: str, server: Server) -> list[Turn]:
    """The measurements of a work on a server. There is none when the server does not have the work."""
    match work:
        case "send":
            return [partial(_send, server)]
        case "rate":
            return [partial(_rate, server)]
        case "history":
            loads = {"history": server.history("http"), "history_ws": server.history("ws")}
            return [partial(_history, server, row, load) for row, load in loads.items() if load is not None]
        case "inbox":
            return _inbox(server)
        case "fanout":
            return [partial(_fanout, server, server.channel(count), count) for count in server.sizes.members]
    raise AssertionError(work)


def _measured(server: Server, load: AnyLoad) -> Measured:
    sizes = server.sizes
    return measure(
        Plan(
            url=server.url,
            parts=server.parts,
            load=load,
            seconds=sizes.seconds,
            warm_up_s=sizes.warm_up_s,
            dialect=server.dialect,
        )
    )


def _send(server: Server, number: int) -> Figures:
    return {"send": _measured(server, server.sending(f"send{number}", None)).cpu_us}


def _rate(server: Server, number: int) -> Figures:
    found = _measured(server, server.sending(f"rate{number}", server.sizes.rate))
    return {"rate": found.cpu_us, "rate_p50": found.p50_ms}


def _history(server: Server, row: str, load: Readers, number: int) -> Figures:
    return {row: _measured(server, load).cpu_us}


def _inbox(server: Server) -> list[Turn]:
    opens = server.inbox()
    if opens is None:
        return []

    def turn(number: int) -> Figures:
        found = _measured(server, opens.load)
        return {"inbox": found.cpu_us * opens.requests, "inbox_bytes": opens.size_bytes}

    return [turn]


def _fanout(server: Server, channel: Channel, count: int, number: int) -> Figures:
    load = Channel(
        **{name: getattr(channel, name) for name in Channel.__struct_fields__}
        | {"run": f"run{number}", "waits_for_all": True}
    )
    return {f"fanout_{count}": _measured(server, load).cpu_us / (count - 1)}
