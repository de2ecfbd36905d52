"""The servers of the keyspace, as a doctor needs them: asked directly, whatever state they are in.

A node refuses a replica, a server that evicts, a cluster with a hole; a doctor must talk to exactly those. So a
`Server` is one signed-in connection, and a refusal is an answer. `open_servers` finds them all: the embedded one (of a
running node, or started for the time of the look), the one of a URL, or every primary of a cluster. Used by
examination.py.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from tidings.bounds import KEYSPACE_COMMAND_S
from tidings.clock import Clock
from tidings.config import ENV, Settings
from tidings.doctor.findings import Finding, ok, wrong
from tidings.errors import Unavailable
from tidings.stores.calls import Arg, plain
from tidings.stores.keyspace_embedded import EmbeddedValkey
from tidings.stores.keyspace_folder import FOLDER_NAME, DataInUse, running_socket
from tidings.stores.keyspace_link import Link
from tidings.stores.keyspace_slots import SLOTS, parse_cluster_url, parse_slots, uncovered
from tidings.stores.keyspace_wire import Address, ErrorReply, Wire, parse_address, without_prefix

Words = tuple[Arg, ...]
_NOT_OURS = " is not a folder of ours"  # how keyspace_folder.py ends it


class Server:
    """One server, connected and signed in. Refusals are answers (`ErrorReply`); raises Unavailable when it is lost."""

    def __init__(self, address: Address, wire: Wire) -> None:
        self.where = address.label
        self.cli = _command_line(address)
        self._address = address
        self._wire = wire

    async def ask(self, *words: Arg) -> Any:
        return (await self.ask_all([words]))[0]

    async def ask_all(self, commands: Sequence[Words]) -> list[Any]:
        """Several in one round trip: keep them few, for the server does them in one go."""
        try:
            async with asyncio.timeout(KEYSPACE_COMMAND_S):
                return (await self._wire.send([plain("", *words) for words in commands])).answers
        except TimeoutError:
            raise Unavailable(f"{self.where}: no answer within {KEYSPACE_COMMAND_S:g} s") from None

    async def info(self, *sections: str) -> dict[str, str]:
        """What INFO says; nothing of a section that is refused."""
        answers = await self.ask_all([("INFO", section) for section in sections])
        lines = (line for answer in answers if isinstance(answer, bytes) for line in answer.decode().splitlines())
        return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}

    async def config(self, *names: str) -> dict[str, str]:
        """Settings of the server; empty where CONFIG is refused, as managed ones do."""
        answers = await self.ask_all([("CONFIG", "GET", name) for name in names])
        pairs = [answer for answer in answers if isinstance(answer, list) and len(answer) == 2]
        return {name.decode(): value.decode() for name, value in pairs}

    def permit(self, *rights: str) -> str:
        """The fix for a refusal. Nobody may give rights to themselves: another user signs in for it."""
        cli = _command_line(msgspec.structs.replace(self._address, user="", db=0))
        words = (self._address.user or "default", *rights)
        return f"as an administrator: {cli} ACL SETUSER {shlex.join(words)}"

    def close(self) -> None:
        self._wire.cut("the look is over")


class Found(msgspec.Struct, frozen=True):
    """The servers there are, and what was found on the way to them."""

    servers: list[Server]
    findings: list[Finding]
    prefix: str = ""


@asynccontextmanager
async def open_servers(settings: Settings, clock: Clock, *, may_start: bool = True) -> AsyncIterator[Found]:
    """`may_start`: an embedded server that no node runs is started for the time of the look."""
    async with AsyncExitStack() as stack:
        findings: list[Finding] = []
        servers: list[Server] = []
        try:
            for address in await _addresses(settings, clock, stack, findings, may_start):
                servers += await _visit(address, clock, stack, findings)
        except (Unavailable, DataInUse, OSError, ValueError) as error:
            findings.append(_unreachable(str(error)))
        prefix = without_prefix(settings.keyspace)[1]
        yield Found(servers, findings, prefix)


async def _addresses(
    settings: Settings, clock: Clock, stack: AsyncExitStack, findings: list[Finding], may_start: bool
) -> Iterable[Address]:
    if settings.keyspace == "embedded":
        return await _embedded(settings, clock, stack, findings, may_start)
    if settings.keyspace.startswith("redis+cluster:"):
        return await _primaries(parse_cluster_url(settings.keyspace), clock, findings)
    return [parse_address(settings.keyspace)]


async def _embedded(
    settings: Settings, clock: Clock, stack: AsyncExitStack, findings: list[Finding], may_start: bool
) -> Iterable[Address]:
    shared = running_socket(settings.data)
    if shared is not None:
        return [parse_address(shared)]
    if not (settings.data / FOLDER_NAME).exists():
        findings.append(ok("keyspace.reachable", "the embedded Valkey was not started yet; the first node does it"))
        return []
    if not may_start:
        return []
    valkey = await EmbeddedValkey.start(settings.data, clock)
    stack.push_async_callback(valkey.stop)
    return [parse_address(valkey.url)]


async def _primaries(seeds: Sequence[Address], clock: Clock, findings: list[Finding]) -> Iterable[Address]:
    """Every primary, as the first server that answers knows them."""
    reason = Unavailable("the cluster names no server")
    for seed in seeds:
        try:
            run = await Link(seed, (), clock, lambda n: None).glance([plain("", "CLUSTER", "SLOTS")])
            shards = parse_slots(run.answers[0], seed.host)
        except ValueError:
            reason = Unavailable(f"{seed.label}: {run.answers[0]}")
        except Unavailable as error:
            reason = error
        else:
            if missing := uncovered(shards):
                says = f"{missing} of {SLOTS} slots are served by nobody"
                findings.append(wrong("keyspace.slots", says, "valkey-cli --cluster check; valkey-cli --cluster fix"))
            places = sorted({(shard.primary.host, shard.primary.port) for shard in shards})
            return [msgspec.structs.replace(seed, host=host, port=port) for host, port in places]
    raise reason


async def _visit(address: Address, clock: Clock, stack: AsyncExitStack, findings: list[Finding]) -> list[Server]:
    try:
        wire = await Link(address, (), clock, lambda n: None).visit()
    except Unavailable as error:
        findings.append(_unreachable(str(error), address.label))
        return []
    server = Server(address, wire)
    stack.callback(server.close)
    return [server]


def _unreachable(why: str, where: str = "") -> Finding:
    fix = f"{ENV}KEYSPACE: is the address right, and does the server run there?"
    if why.endswith(_NOT_OURS):  # first: its path may hold any word
        folder = shlex.quote(why.removesuffix(_NOT_OURS))
        fix = (
            f"as the user whose node it is, with the node's {ENV}* settings: "
            f'sudo --preserve-env -u "$(stat -c %U {folder})" tidings doctor'
        )
    elif "password" in why:
        fix = f"{ENV}KEYSPACE=redis://USER:PASSWORD@host:port with the right ones (ACL LIST on the server)"
    elif "certificate" in why:
        fix = "SSL_CERT_FILE=/path/of/the/authority.pem, if it is your own"
    elif "AOF" in why or "No space" in why or "disk" in why:
        fix = "see host.disk and host.write"
    elif "SELECT" in why or "DB index" in why:
        fix = "take ?db= out of the URL"
    return wrong("keyspace.reachable", why, fix, where)


def _command_line(address: Address) -> str:
    """To the same server and database as the same user; it asks for the password, which is never printed."""
    where = f" -s {shlex.quote(address.path)}" if address.path else f" -h {address.host} -p {address.port}"
    tls = " --tls" if address.is_tls else ""
    user = f" --user {shlex.quote(address.user)}" if address.user else ""
    password = " --askpass" if address.password else ""
    db = f" -n {address.db}" if address.db else ""
    return f"valkey-cli{where}{tls}{user}{password}{db}"


def refusal(answer: Any) -> str:
    """The first words of a refusal; empty when it is none."""
    return str(answer).partition(",")[0][:160] if isinstance(answer, ErrorReply) else ""
