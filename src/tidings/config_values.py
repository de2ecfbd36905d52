"""How the text of a setting becomes a value, and what is said when it cannot.

Every parser takes text and either answers a value or raises `SettingsError` with one line that names what is wrong and
what would be right. Nothing here knows where the text came from; config.py adds that. A secret is never repeated.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tidings.model import is_id

MASK = "********"
SECRET_BYTES_MIN = 32  # RFC 7518: a key for HS256 is at least as long as the hash; shorter ones can be searched

_LIMIT = re.compile(r"(\d{1,7})/(\d{1,5})s\Z")
_DURATION = re.compile(r"(\d{1,6})([smhd])\Z")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WINDOW_S_MAX = 86_400
_PASSWORD = re.compile(r"(?<=//)(?P<user>[^@:]*):.*@")  # to the last @: a password may hold what it should not


class SettingsError(Exception):
    """The operator's mistake, in one line; the command line ends with exit code 2."""


class Limit(msgspec.Struct, frozen=True, gc=False):
    """A budget: `count` requests in any `window_s` seconds."""

    count: int
    window_s: int

    def __str__(self) -> str:
        return f"{self.count}/{self.window_s}s"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the closest known word, or nothing when none is close."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""


def mask_url(text: str) -> str:
    """The same URL without its password."""
    return _PASSWORD.sub(rf"\g<user>:{MASK}@", text)


def text(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise SettingsError("must be printable text and not empty")
    return value.strip()


def secret(value: str) -> str:
    """Long enough to be one. A trailing newline is the editor's, not the secret's."""
    bare = value.strip()
    if len(bare.encode()) < SECRET_BYTES_MIN:
        raise SettingsError(f"it has fewer than {SECRET_BYTES_MIN} bytes; `openssl rand -hex 32` makes a good one")
    return bare


def path(value: str) -> Path:
    return Path(text(value)).expanduser()


def flag(value: str) -> bool:
    return choice("true", "false")(value) == "true"


def whole(low: int, high: int) -> Callable[[str], int]:
    """A whole number from `low` to `high`."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", value.strip()):
            raise SettingsError(f"{value!r} is not a whole number from {low} to {high}")
        number = int(value)
        if not low <= number <= high:
            raise SettingsError(f"{number} is not from {low} to {high}; the nearest is {min(max(number, low), high)}")
        return number

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """One of the words."""

    def parse(value: str) -> str:
        if value not in words:
            raise SettingsError(f"{value!r} is not one of {', '.join(words)}{nearest(value, words)}")
        return value

    return parse


def days_or_off(value: str) -> int | None:
    """Whole days; 0 is at once; `off` is never."""
    if value == "off":
        return None
    try:
        return whole(0, 36_500)(value)
    except SettingsError as error:
        raise SettingsError(f"{error}, or off") from None


def limit(value: str) -> Limit | None:
    """`100/60s`, or `off` for no limit at all."""
    if value == "off":
        return None
    found = _LIMIT.match(value.replace(" ", ""))
    if found is None:
        raise SettingsError(f"{value!r} is not of the form N/SECONDSs, for example 100/60s, nor off")
    count, window_s = int(found[1]), int(found[2])
    if count < 1 or not 1 <= window_s <= _WINDOW_S_MAX:
        raise SettingsError(f"{value!r} needs a count of 1 or more and a window from 1s to {_WINDOW_S_MAX}s")
    return Limit(count, window_s)


def duration_s(value: str) -> int:
    """`90s`, `15m`, `1h` or `30d`, in seconds."""
    found = _DURATION.match(value)
    if found is None or int(found[1]) == 0:
        raise SettingsError(f"{value!r} is not a duration such as 90s, 15m, 1h or 30d")
    return int(found[1]) * _UNIT_S[found[2]]


def safe_id(value: str) -> str:
    """An id that may stand inside a key."""
    if not is_id(value):
        raise SettingsError(f"{value[:40]!r} is not 1-128 characters of A-Z a-z 0-9 _ . @ - (and not . or ..)")
    return value


def host(value: str) -> str:
    """A name or an address, without a port; brackets around IPv6 are taken off."""
    bare = text(value).removeprefix("[").removesuffix("]")
    if re.fullmatch(r"[A-Za-z0-9_.-]+", bare):
        return bare
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        raise SettingsError(f"{value!r} is neither a host name nor an IP address (the port has its own key)") from None


def is_loopback(name: str) -> bool:
    """Whether only this machine can reach the address."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def web_url(value: str) -> str:
    try:
        parts = urlsplit(text(value))
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its own message may quote a password
        is_good = False
    if not is_good:
        raise SettingsError(f"{mask_url(value)!r} is not an http:// or https:// address")
    return value.strip()


def contact(value: str) -> str:
    """Who answers for what we send, as RFC 8292 wants it."""
    scheme, _, rest = text(value).partition(":")
    if scheme not in ("mailto", "https") or not rest.strip("/"):
        raise SettingsError(f"{value!r} is neither mailto:someone@example.com nor an https:// address")
    return value.strip()


def push_hosts(value: str) -> tuple[str, ...]:
    """Comma-separated host names, each with a port if it is not 443; `*.` in front is any name below."""
    hosts = tuple(item.strip().lower() for item in value.split(",") if item.strip())
    for item in hosts:
        if not re.fullmatch(r"(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:\d{1,5})?", item):
            raise SettingsError(f"{item!r} is not a host name such as updates.push.services.mozilla.com")
    return hosts


def origins(value: str) -> tuple[str, ...]:
    """Comma-separated origins; `*` allows every one."""
    return tuple(_origin(item.strip()) for item in value.split(",") if item.strip())


def _origin(item: str) -> str:
    if item == "*":
        return item
    parts = urlsplit(item)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise SettingsError(f"{item!r} is not an origin such as https://chat.example.com")
    return item.rstrip("/").lower()


def _prefix(letters: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if not re.fullmatch(rf"[A-Za-z0-9{letters}-]{{0,64}}", value):
            raise SettingsError(f"{value!r} may hold only A-Z a-z 0-9 {' '.join(letters)} -, 64 at most")
        return value

    return parse


Parameters = dict[str, Callable[[str], object]]
_SERVER: Parameters = {"prefix": _prefix("_.:"), "db": whole(0, 999_999)}
_ENDPOINT: Parameters = {"endpoint": web_url}
KEYSPACE_SCHEMES: dict[str, Parameters] = {
    "redis": _SERVER,
    "rediss": _SERVER,
    "unix": _SERVER,
    "redis+cluster": {"prefix": _prefix("_.:"), "tls": flag},
}
TABLES_SCHEMES: dict[str, Parameters] = {
    "sqlite": {},
    "dynamodb": {
        "prefix": _prefix("_."),
        "dedupe": choice("transaction", "cheap"),
        "links": whole(2, 999),
        **_ENDPOINT,
    },
}
BLOBS_SCHEMES: dict[str, Parameters] = {
    "file": {},
    "s3": {"region": host, **_ENDPOINT},
    "gs": _ENDPOINT,
    "az": _ENDPOINT,
}


def store(word: str, schemes: dict[str, Parameters]) -> Callable[[str], str]:
    """A store: the `word` for the embedded one, or a URL whose scheme picks the adapter."""
    forms = [word, *(f"{scheme}://" for scheme in schemes)]

    def parse(value: str) -> str:
        value = text(value)
        if value == word:
            return value
        scheme, divider, rest = value.partition("://")
        if not divider or scheme not in schemes:
            given = re.split(r"[:/@?]", scheme)[0][:20] + divider  # no more of it: a password may follow
            raise SettingsError(f"{given!r} is not one of {', '.join(forms)}{nearest(given, forms)}")
        if not rest.strip("/"):
            raise SettingsError(f"{mask_url(value)!r} names no place after {scheme}://")
        _check_place(value)
        _check_query(value, schemes[scheme])
        return value

    return parse


def _check_place(url: str) -> None:
    if url.startswith("redis+cluster:"):  # several hosts are not one place
        _check_hosts(url)
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SettingsError("the URL's host has a bracket too few or too many") from None
    if parts.scheme in ("unix", "sqlite", "file") and (parts.netloc or not parts.path.startswith("/")):
        raise SettingsError(f"{mask_url(url)!r} has no absolute path; it has three slashes: {parts.scheme}:///path")
    if parts.scheme in ("redis", "rediss"):
        try:
            _ = parts.port
        except ValueError:  # its own message may quote a password
            raise SettingsError("the URL's port is not a number; is its password percent-encoded?") from None
        if not re.fullmatch(r"/?\d{0,6}/?", parts.path):
            raise SettingsError("the URL's database is not a number; is its password percent-encoded?")
    if parts.scheme == "dynamodb" and not re.fullmatch(r"[a-z0-9-]+/?", f"{parts.netloc}{parts.path}"):
        raise SettingsError("the URL names no region; it is dynamodb://eu-west-1, and the rest are parameters")


def _check_hosts(url: str) -> None:
    """Nothing of it is quoted: what follows a bare / or @ may be a password."""
    places, _, database = url.partition("://")[2].partition("?")[0].partition("/")
    hosts = places.rpartition("@")[2].split(",")
    if database.strip("/") not in ("", "0"):
        raise SettingsError("a cluster has no databases but 0; is the URL's password percent-encoded?")
    for one in hosts:
        found = re.fullmatch(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", one)
        if found is None or int(found[2] or 1) not in range(1, 65_536):
            raise SettingsError("the URL names no host:port,host:port after redis+cluster://")


def _check_query(url: str, known: Parameters) -> None:
    for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if name not in known:
            valid = f"; valid: {', '.join(known)}" if known else ""
            raise SettingsError(f"the URL has an unknown parameter {name!r}{valid}{nearest(name, known)}")
        try:
            known[name](value)
        except SettingsError as error:
            raise SettingsError(f"the URL's {name}: {error}") from None
