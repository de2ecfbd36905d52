"""World: the nodes as processes, the stores they share, and links in between that can fail.

The stores are ours unless their URLs are given, or the whole of it is running already and only its addresses are known;
what cannot be done to a world is left out of its faults, by name. `heal` ends all trouble.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from tidings.clock import Clock, Dice
from tidings.config.settings import Auth, Settings
from tidings.config.values import SettingsError
from tidings.stores.tables.open import adapter_of
from tidings_proof.world.keyspaces import AnyKeyspace, ClusterKeyspace, EmbeddedKeyspace, OneValkey
from tidings_proof.world.ports import free_port
from tidings_proof.world.processes import NodeProcess
from tidings_proof.world.proxy import Proxy

if TYPE_CHECKING:  # DynamoDB is an extra
    from tidings_proof.world.dynamodb import DynamoLocal
    from tidings_proof.world.postgres import PostgresServer

TABLES = ("sqlite", "postgres", "dynamodb")
KEYSPACES = ("valkey", "embedded", "cluster")
STORES = tuple(f"{tables}+{keyspace}" for tables in TABLES for keyspace in KEYSPACES)
MEMBERS_LARGE = 4  # a channel of all is large, and groups whose members come and go cross the line
SEND_LIMIT = "120/10s"  # twice what a user sends on average: only a burst meets it
GRACE_S = 5  # of pending deliveries: the shortest there is, so that a short run sees them
TOKEN_S = 86_400


class Place(NamedTuple):
    """Where a world is made, and of what."""

    folder: Path
    nodes: int
    stores: str  # one of STORES
    settings: Settings  # URLs of stores that are not ours; the defaults mean: make them
    addresses: tuple[str, ...] = ()  # of nodes that run already; then nothing is made
    plants: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    def targets(self) -> list[int]:
        """Ports of nodes that run already. Raises SettingsError where nothing can be done to them as it is asked."""
        ports = [_port_of(address) for address in self.addresses]
        if ports and self.plants:
            raise SettingsError("--plant is for nodes that torture starts: nothing can be planted with --at")
        if ports and not self.settings.auth.secret:
            raise SettingsError("--at needs --auth-secret, the secret of those nodes: only flags count here")
        return ports


class World:
    def __init__(self, place: Place, keyspace: AnyKeyspace, tables: str, secret: str) -> None:
        self.place = place
        self.keyspace = keyspace
        self.tables = tables
        self.dynamodb: DynamoLocal | None = None
        self.postgres: PostgresServer | None = None
        self.nodes: list[NodeProcess] = []
        self.fronts: list[Proxy] = []  # clients reach nodes through these
        self._secret = secret
        self._clock = Clock()

    @property
    def is_ours(self) -> bool:
        """Whether its nodes are processes that we started."""
        return not self.place.addresses

    @property
    def has_own_stores(self) -> bool:
        """Whether nothing was in its stores before, so that every name is new there."""
        given = self.place.settings
        return self.is_ours and (given.keyspace, given.tables) == ("embedded", "sqlite")

    @property
    def sqlite(self) -> Path | None:
        """The file of the tables, where it is one."""
        return Path(self.tables.removeprefix("sqlite://")) if self.tables.startswith("sqlite://") else None

    @property
    def settings(self) -> Settings:
        """For who reads the stores past the nodes."""
        return replace(
            self.place.settings,
            data=self.place.folder / "reader",
            keyspace=self.keyspace.url,
            tables=self.tables,
            blobs=self.blobs,
            auth=Auth(secret=self._secret),
        )

    @property
    def blobs(self) -> str:
        given = self.place.settings.blobs
        return given if "://" in given else f"file://{self.place.folder / 'blobs'}"

    def ports(self) -> list[int]:
        return [front.port for front in self.fronts]

    def token(self, user_id: str) -> str:
        from joserfc import jwt
        from joserfc.jwk import OctKey

        now_s = self._clock.now_ms() // 1000
        # Begun early and ending late: a node whose clock jumps must still know its users.
        claims = {"sub": user_id, "iat": now_s - TOKEN_S, "exp": now_s + TOKEN_S}
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(self._secret))

    # --- its life -----------------------------------------------------------------------------------

    async def start(self, stack: AsyncExitStack) -> None:
        for number in range(self.place.nodes):
            node = NodeProcess(f"n{number}", self.place.folder, free_port(), self._env(number), self.place.plants)
            stack.callback(node.kill)
            self.nodes.append(node)
        for target in [node.port for node in self.nodes] or self.place.targets():
            front = Proxy(target)
            await front.open()
            stack.push_async_callback(front.close)
            self.fronts.append(front)
        for node in self.nodes:  # the first may own the keyspace that the others share
            await node.start()

    def _env(self, number: int) -> dict[str, str]:
        keyspace = self.keyspace.url_of(number)
        return {
            "TIDINGS_AUTH_SECRET": self._secret,
            "TIDINGS_TABLES": self.tables,
            "TIDINGS_BLOBS": self.blobs,
            "TIDINGS_LIMITS_SEND": SEND_LIMIT,
            "TIDINGS_LIMITS_READ": "off",
            "TIDINGS_LIMITS_HTTP": "off",
            "TIDINGS_LIMITS_CREATE": "off",
            "TIDINGS_LIMITS_CONNECT": "off",
            "TIDINGS_PUSH_GRACE_S": str(GRACE_S),
            "TIDINGS_MEMBERS_LARGE": str(MEMBERS_LARGE),
            "TIDINGS_LOG_FORMAT": "json",
            "TIDINGS_HOOKS_PRIVATE_ADDRESSES": "true",  # the endpoint of torture is on this machine
            **({} if keyspace is None else {"TIDINGS_KEYSPACE": keyspace}),
            **({"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"} if self.dynamodb else {}),
            **dict(self.place.env),
        }

    async def heal(self) -> None:
        """Everything runs, everything passes, nothing is planted in the way any more."""
        for front in self.fronts:
            front.mend()
        await self.keyspace.heal()
        if self.dynamodb is not None:
            self.dynamodb.shim.choose = None
        if self.postgres is not None and not self.postgres.is_running:
            await asyncio.to_thread(self.postgres.start)
        for node in self.nodes:
            node.forgive()
        for node in self.nodes:
            await node.revive()
        await asyncio.gather(*(node.ready() for node in self.nodes))


@asynccontextmanager
async def open_world(place: Place, dice: Dice) -> AsyncIterator[World]:
    place.targets()
    async with AsyncExitStack() as stack:
        secret = place.settings.auth.secret or Clock().random_id(32)
        dynamodb, postgres = await _dynamodb(place, stack), await _postgres(place, stack)
        keyspace = _keyspace(place, dice)
        stack.push_async_callback(keyspace.close)
        await keyspace.open(place.nodes)
        tables = await _tables(place, dynamodb) if postgres is None else postgres.url("torture")
        world = World(place, keyspace, tables, secret)
        world.dynamodb, world.postgres = dynamodb, postgres
        await world.start(stack)
        yield world


def _keyspace(place: Place, dice: Dice) -> AnyKeyspace:
    if place.addresses or place.settings.keyspace != "embedded":
        return AnyKeyspace(place.settings.keyspace)
    kind = place.stores.partition("+")[2]
    if kind == "cluster":
        return ClusterKeyspace(place.folder)
    if kind == "embedded":
        return EmbeddedKeyspace(place.folder, place.folder / "n0", dice)
    return OneValkey(place.folder, dice)


async def _dynamodb(place: Place, stack: AsyncExitStack) -> DynamoLocal | None:
    if place.addresses or place.settings.tables != "sqlite" or not place.stores.startswith("dynamodb"):
        return None
    from tidings_proof.world.dynamodb import DynamoLocal

    folder = place.folder / "dynamodb"
    folder.mkdir()
    server = await asyncio.to_thread(DynamoLocal, folder)
    stack.callback(server.stop)
    return server


async def _postgres(place: Place, stack: AsyncExitStack) -> PostgresServer | None:
    if place.addresses or place.settings.tables != "sqlite" or not place.stores.startswith("postgres"):
        return None
    from tidings_proof.world.postgres import PostgresServer

    server = await asyncio.to_thread(PostgresServer)
    stack.callback(server.stop)
    return server


async def _tables(place: Place, dynamodb: DynamoLocal | None) -> str:
    """Their URL; new tables are made where they must be."""
    if dynamodb is None:
        given = place.settings.tables
        return given if given != "sqlite" else f"sqlite://{place.folder / 'tidings.db'}"
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")
    url = dynamodb.url("torture_")
    await adapter_of(url).create(url, Clock())
    return url


def _port_of(address: str) -> int:
    """Clients reach a node through a link on this machine, so it must be here."""
    parts = urlsplit(address if "//" in address else f"//{address}")
    if parts.hostname not in ("127.0.0.1", "localhost") or parts.port is None:
        raise SettingsError(f"--at takes loopback addresses such as http://127.0.0.1:8000, not {address!r}")
    return parts.port
