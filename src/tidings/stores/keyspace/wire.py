"""One life of one connection to one server: commands out, answers in, in order.

Everything that is sent within one turn of the event loop leaves in one write, and a whole run of calls has one future,
so a command costs a few microseconds. The invariant: an answer always belongs to the oldest waiting run. Anything that
could break that (a stray answer, another protocol) ends the connection. Nothing here reconnects: the link does.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, parse_qs, parse_qsl, unquote, urlencode, urlsplit

import hiredis
import msgspec

from tidings.bounds import KEYSPACE_RUNS_MAX
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Arg, Call

PORT_DEFAULT = 6379
SCHEMES = ("redis", "rediss", "unix")
_SPELLINGS = {"valkey": "redis", "valkeys": "rediss"}
_FILES = ("ca", "cert", "key", "password_file")  # options that every URL has
_SWITCH = {"true": True, "false": False}
_WANTS_CERTIFICATE = "certificate required"  # in the alert of a server that got none

_pack = cast(Callable[[tuple[Arg, ...]], bytes], hiredis.pack_command)
_NOTHING = object()  # the reader's "no whole answer yet": False would be equal to the answer 0


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a server, and the user and password for it."""

    host: str = ""
    port: int = PORT_DEFAULT
    path: str = ""  # of a unix socket; then host and port are not used
    is_tls: bool = False
    user: str = ""
    password: str = ""
    db: int = 0
    ca: str = ""  # file of the authority of the server's certificate; empty: those of the system
    cert: str = ""  # file of the client's own certificate, with its key if `key` is empty
    key: str = ""
    password_file: str = ""

    def secret(self) -> str:
        """The password. A file is read each time, so a password may change while a node runs. Raises Unavailable."""
        if not self.password_file:
            return self.password
        try:
            with open(self.password_file, encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise Unavailable(f"{self.label}: cannot read the password file {self.password_file}: {why}") from None

    @property
    def label(self) -> str:
        """The address for logs and errors, without the password."""
        if self.path:
            return f"unix://{self.path}"
        return f"{'rediss' if self.is_tls else 'redis'}://{self.host}:{self.port}"


def spelled(url: str) -> str:
    """The URL with the name that this code uses: valkey:// is redis://, valkeys:// is rediss://."""
    scheme, divider, rest = url.partition("://")
    word, plus, kind = scheme.partition("+")
    return f"{_SPELLINGS.get(word, word)}{plus}{kind}{divider}{rest}"


def parse_address(url: str) -> Address:
    """redis://[user:password@]host:port/db, rediss:// likewise, unix:///path?db=N. Raises ValueError with one line.

    `?prefix=` is the caller's: it is accepted and ignored here. The message never repeats the URL (it has a password).
    """
    parts = urlsplit(spelled(url))
    if parts.scheme not in SCHEMES:
        raise ValueError(f"a keyspace URL starts with redis://, rediss:// or unix://, not {parts.scheme!r}")
    options = _options(parts.query, {"db", "prefix"})
    is_unix = parts.scheme == "unix"
    if is_unix and (parts.hostname or parts.path in ("", "/")):
        raise ValueError("a unix keyspace URL is unix:// and an absolute path: unix:///run/valkey.sock")
    return Address(
        host="" if is_unix else parts.hostname or "127.0.0.1",
        port=_parse_port(parts),
        path=unquote(parts.path) if is_unix else "",
        is_tls=parts.scheme == "rediss",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        db=_parse_db(options.get("db") or ("" if is_unix else parts.path.strip("/"))),
        **{name: options[name] for name in _FILES if name in options},
    )


class Several(NamedTuple):
    """The parts of a URL that names several servers."""

    addresses: tuple[Address, ...]
    path: str
    options: dict[str, str]


def parse_several(url: str, scheme: str, port: int, more: Collection[str] = ()) -> Several:
    """scheme://[user:password@]host:port[,host:port ...]/path[?tls=true]. `more`: names of options of this scheme.

    Raises ValueError with one line that never repeats the URL (it has a password). `?prefix=` is the caller's.
    """
    url = spelled(url)
    netloc = url.partition("://")[2].partition("?")[0].partition("/")[0]
    parts = urlsplit(url.replace(netloc, "", 1) if netloc else url)  # several hosts, some in brackets, are not one host
    if parts.scheme != scheme:
        raise ValueError(f"this URL starts with {scheme}://, not {parts.scheme!r}")
    options = _options(parts.query, {"prefix", "tls", *more})
    is_tls = _SWITCH.get(options.get("tls", "false"))
    if is_tls is None:
        raise ValueError(f"the option tls of a {scheme} URL is true or false")
    who, at, names = netloc.rpartition("@")
    hosts = names.split(",")
    if not all(hosts):
        raise ValueError(f"a {scheme} URL names the servers to ask first: host:port,host:port")
    files = urlencode({name: options[name] for name in _FILES if name in options})
    single = "rediss" if is_tls else "redis"
    full = [host if re.search(r":\d+$", host) else f"{host}:{port}" for host in hosts]
    addresses = tuple(parse_address(f"{single}://{who}{at}{host}?{files}") for host in full)
    return Several(addresses, parts.path.strip("/"), options)


def _options(query: str, known: Collection[str]) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    if unknown := sorted(options.keys() - {*known, *_FILES}):
        raise ValueError(f"a keyspace URL has no option {unknown[0]!r}; it has {', '.join(sorted({*known, *_FILES}))}")
    return options


def without_prefix(url: str) -> tuple[str, str]:
    """The URL without `?prefix=`, and the prefix. Cut by hand: a cluster's several hosts are no URL to Python."""
    place, _, options = url.partition("?")
    query = dict(parse_qsl(options))
    prefix = query.pop("prefix", "")
    return f"{place}?{urlencode(query)}" if query else place, prefix


def _parse_port(parts: SplitResult) -> int:
    try:
        return parts.port or PORT_DEFAULT
    except ValueError:  # its message may quote a password that has a bare slash or colon in it
        raise ValueError("the port of a keyspace URL is not a number; is the password percent-encoded?") from None


def _parse_db(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ValueError(f"the database of a keyspace URL is a number, not {text!r}")
    return int(text or 0)


class ErrorReply(Exception):
    """The server's refusal of one command, as a value among the answers."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class Run:
    """Calls that were sent together, and their answers as they come. It does not know its future, whose result it will
    be: a pair that hold each other would be left to the garbage collector, one for every call of the node."""

    __slots__ = ("answers", "is_faulty", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.answers: list[Any] = []
        self.is_faulty = False  # an ErrorReply is among the answers


class Wire(asyncio.Protocol):
    """The connection. `epoch` is the server's life that was read over it; `on_lost` is called once, with a reason."""

    def __init__(self, label: str, count: Callable[[int], None], on_lost: Callable[[Wire, str], None]) -> None:
        self.epoch = ""
        self.is_lost = False
        self._label = label
        self._count = count
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(replyError=self._refused, notEnoughData=_NOTHING)
        self._faults = 0
        self._unsent: list[bytes] = []
        self._waiting: deque[tuple[Run, asyncio.Future[Run]]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether calls wait for their answers."""
        return bool(self._waiting)

    def send(self, calls: Sequence[Call[Any]]) -> asyncio.Future[Run]:
        """Send the calls and return the future of their run. All are packed first, so a bad call harms no other."""
        if self.is_lost:
            raise Unavailable(f"{self._label} is down")
        if len(self._waiting) >= KEYSPACE_RUNS_MAX:
            raise Unavailable(f"{self._label} has too much waiting")
        packed = [_pack(call.words) if call.epoch_at is None else self._pack_with_epoch(call) for call in calls]
        done: asyncio.Future[Run] = self._loop.create_future()
        run = Run(len(packed))
        if not packed:
            done.set_result(run)
            return done
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += packed
        self._waiting.append((run, done))
        return done

    def cut(self, reason: str) -> None:
        """End the connection now. Commands that wait for an answer may or may not have run."""
        if self.is_lost:
            return
        self.is_lost = True
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            _, done = self._waiting.popleft()
            if not done.done():
                done.set_exception(Unavailable(f"{self._label}: {reason}", is_ambiguous=True))
        self._on_lost(self, reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_lost:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            self._drain()
        except hiredis.ProtocolError:
            self.cut("it does not speak the Redis protocol")

    def connection_lost(self, error: Exception | None) -> None:
        self.cut(_lost_by(error) if error else "it closed the connection")

    def _pack_with_epoch(self, call: Call[Any]) -> bytes:
        words, at = call.words, call.epoch_at
        return _pack((*words[:at], self.epoch + call.epoch_tag, *words[at:]))

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and not self.is_lost:
            self._transport.write(b"".join(unsent))
            self._count(len(unsent))

    def _drain(self) -> None:
        replies = iter(self._reader.gets, _NOTHING)
        waiting = self._waiting
        while waiting:
            run, done = waiting[0]
            faults = self._faults
            run.answers.extend(islice(replies, run.size - len(run.answers)))
            if self._faults != faults:
                run.is_faulty = True
            if len(run.answers) < run.size:
                return
            waiting.popleft()
            if not done.done():  # the caller may have been cancelled meanwhile
                done.set_result(run)
        if next(replies, _NOTHING) is not _NOTHING:
            self.cut("it sent an answer that nobody asked for")

    def _refused(self, text: str) -> ErrorReply:
        self._faults += 1
        return ErrorReply(text)


async def dial(address: Address, wire: Wire) -> None:
    """Connect the wire. Raises Unavailable with the reason in one line."""
    try:
        await connect_to(address, lambda: wire)
    except OSError as error:
        raise Unavailable(f"{address.label}: {_reason(error)}") from error


async def connect_to(address: Address, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
    """Connect by TCP, TLS or a unix socket, as the address says. Raises OSError."""
    loop = asyncio.get_running_loop()
    if address.path:
        await loop.create_unix_connection(protocol, address.path)
    else:
        tls = _tls_of(address) if address.is_tls else None
        await loop.create_connection(protocol, address.host, address.port, ssl=tls)


def _tls_of(address: Address) -> ssl.SSLContext:
    """The files are read for each connection, so certificates may be renewed while a node runs."""
    try:
        context = ssl.create_default_context(cafile=address.ca or None)
        if address.cert:
            context.load_cert_chain(address.cert, address.key or None)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(filter(None, (address.ca, address.cert, address.key)))
        why = error.strerror or "it is no certificate or key, or they do not fit"
        raise OSError(f"cannot use {files}: {why}") from None
    return context


def _lost_by(error: Exception) -> str:
    if _WANTS_CERTIFICATE in str(error).lower():
        return "it wants a client certificate: ?cert=FILE&key=FILE in the URL"
    return f"the connection was lost ({error})"


def _reason(error: OSError) -> str:
    if _WANTS_CERTIFICATE in str(error).lower():
        return _lost_by(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, FileNotFoundError):
        return "there is no such socket"
    return " ".join((error.strerror or str(error) or type(error).__name__).split())
