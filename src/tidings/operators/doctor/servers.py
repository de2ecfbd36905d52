"""Servers of the keyspace, connected directly, in whatever state they are.

A node refuses a replica, a server that evicts, and a cluster with a hole; doctor must talk to exactly those. So a
`Server` is one signed-in connection, and a refusal is an answer. `open_servers` finds all servers: the embedded one (of
a running node, or started for the time of the checks), the one of a URL, or every primary of a cluster.
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
from tidings.config.settings import ENV, Settings
from tidings.errors import Unavailable
from tidings.stores.findings import Finding, ok, wrong
from tidings.stores.keyspace.call import Arg, plain
from tidings.stores.keyspace.embedded import EmbeddedValkey
from tidings.stores.keyspace.embedded_folder import FOLDER_NAME, DataInUse, running_socket
from tidings.stores.keyspace.hash_slots import SLOTS, parse_cluster_url, parse_slots, uncovered
from tidings.stores.keyspace.link import Link
from tidings.stores.keyspace.open import has_sentinels, is_cluster
from tidings.stores.keyspace.sentinel import Sentinels, parse_sentinel_url
from tidings.stores.keyspace.wire import Address, ErrorReply, Wire, parse_address, without_prefix

Words = tuple[Arg, ...]
_NOT_OURS = " is not a folder of ours"  # the end of the error of embedded_folder.py


class Server:
    """One server, connected and signed in. A refusal is an answer (`ErrorReply`); a lost server raises Unavailable."""

    def __init__(self, address: Address, wire: Wire) -> None:
        self.where = address.label
        self.cli = _command_line(address)
        self._address = address
        self._wire = wire

    async def ask(self, *words: Arg) -> Any:
        return (await self.ask_all([words]))[0]

    async def ask_all(self, commands: Sequence[Words]) -> list[Any]:
        """Send several commands in one round trip. Keep them few: the server runs them in one go."""
        try:
            async with asyncio.timeout(KEYSPACE_COMMAND_S):
                return (await self._wire.send([plain("", *words) for words in commands])).answers
        except TimeoutError:
            raise Unavailable(f"{self.where}: no answer within {KEYSPACE_COMMAND_S:g} s") from None

    async def info(self, *sections: str) -> dict[str, str]:
        """The fields of INFO, without those of a refused section."""
        answers = await self.ask_all([("INFO", section) for section in sections])
        lines = (line for answer in answers if isinstance(answer, bytes) for line in answer.decode().splitlines())
        return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}

    async def config(self, *names: str) -> dict[str, str]:
        """Settings of the server; empty where CONFIG is refused, as on managed servers."""
        answers = await self.ask_all([("CONFIG", "GET", name) for name in names])
        pairs = [answer for answer in answers if isinstance(answer, list) and len(answer) == 2]
        return {name.decode(): value.decode() for name, value in pairs}

    def permit(self, *rights: str) -> str:
        """The fix for a refusal. A user cannot give rights to itself: an administrator must sign in."""
        cli = _command_line(msgspec.structs.replace(self._address, user="", db=0))
        words = (self._address.user or "default", *rights)
        return f"as an administrator: {cli} ACL SETUSER {shlex.join(words)}"

    def close(self) -> None:
        self._wire.cut("the checks are done")


class Found(msgspec.Struct, frozen=True):
    """The servers, and the findings from connecting to them."""

    servers: list[Server]
    findings: list[Finding]
    prefix: str = ""


@asynccontextmanager
async def open_servers(settings: Settings, clock: Clock, *, may_start: bool = True) -> AsyncIterator[Found]:
    """Connect to all servers. `may_start`: an embedded server that no node runs is started for this time."""
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
        found = await _embedded(settings, clock, stack, findings, may_start)
    else:
        found = await _named(settings.keyspace, clock, findings)
    queues = await _named(settings.keyspace_queues, clock, findings) if settings.keyspace_queues else ()
    return [*found, *queues]


async def _named(url: str, clock: Clock, findings: list[Finding]) -> Iterable[Address]:
    if is_cluster(url):
        return await _primaries(parse_cluster_url(url), clock, findings)
    if has_sentinels(url):
        return [await Sentinels(parse_sentinel_url(url), clock).locate()]
    return [parse_address(url)]


async def _embedded(
    settings: Settings, clock: Clock, stack: AsyncExitStack, findings: list[Finding], may_start: bool
) -> Iterable[Address]:
    shared = running_socket(settings.data)
    if shared is not None:
        return [parse_address(shared)]
    if not (settings.data / FOLDER_NAME).exists():
        findings.append(ok("keyspace.reachable", "the embedded Valkey was never started; the first node starts it"))
        return []
    if not may_start:
        return []
    valkey = await EmbeddedValkey.start(settings.data, clock)
    stack.push_async_callback(valkey.stop)
    return [parse_address(valkey.url)]


async def _primaries(seeds: Sequence[Address], clock: Clock, findings: list[Finding]) -> Iterable[Address]:
    """Every primary, as the first server that answers lists them."""
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
                says = f"{missing} of {SLOTS} slots are served by no server"
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
    fix = f"check {ENV}KEYSPACE: is the address right, and does the server run there?"
    if why.endswith(_NOT_OURS):  # first, because its path may contain any word
        folder = shlex.quote(why.removesuffix(_NOT_OURS))
        fix = (
            f"as the user whose node it is, with the node's {ENV}* settings: "
            f'sudo --preserve-env -u "$(stat -c %U {folder})" tidings doctor'
        )
    elif "password" in why:
        fix = f"{ENV}KEYSPACE=redis://USER:PASSWORD@host:port with the right user and password (ACL LIST on the server)"
    elif "certificate" in why:
        fix = "add ?ca=/path/of/the/authority.pem to the URL if the authority is your own"
    elif "AOF" in why or "No space" in why or "disk" in why:
        fix = "see host.disk and host.write"
    elif "SELECT" in why or "DB index" in why:
        fix = "remove ?db= from the URL"
    return wrong("keyspace.reachable", why, fix, where)


def _command_line(address: Address) -> str:
    """A command to the same server, database and user. It asks for the password, which is never printed."""
    where = f" -s {shlex.quote(address.path)}" if address.path else f" -h {address.host} -p {address.port}"
    tls = " --tls" if address.is_tls else ""
    user = f" --user {shlex.quote(address.user)}" if address.user else ""
    password = " --askpass" if address.password or address.password_file else ""
    db = f" -n {address.db}" if address.db else ""
    return f"valkey-cli{where}{tls}{user}{password}{db}"


def refusal(answer: Any) -> str:
    """The first words of a refusal; empty for any other answer."""
    return str(answer).partition(",")[0][:160] if isinstance(answer, ErrorReply) else ""
