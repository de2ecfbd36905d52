"""Parsers: each turns the text of a setting into a value, or raises `SettingsError`.

The error is one line that names what is wrong and what would be right. The parsers do not know the source of the text;
settings.py adds it. No error repeats a secret.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from tidings.bounds import WORKERS_MAX, Limit
from tidings.ids import is_id, is_user_id
from tidings.stores.tables import schemes

MASK = "********"
SECRET_BYTES_MIN = 32  # RFC 7518: an HS256 key is at least as long as the hash; a shorter key can be guessed

_LIMIT = re.compile(r"(\d{1,7})/(\d{1,5})s\Z")
_DURATION = re.compile(r"(\d{1,6})([smhd])\Z")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WINDOW_S_MAX = 86_400
_PASSWORD = re.compile(r"(?<=//)(?P<user>[^@:]*):.*@")  # up to the last @: a password may contain / or @
_BARE_USER = re.compile(r"(?<=//)[^@:/?#]+@")  # a key that stands where a user would


class SettingsError(Exception):
    """A mistake of the operator, in one line; the command line ends with exit code 2."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the closest known word, or an empty text when none is close."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""


def mask_url(text: str) -> str:
    """The same URL without its password, a user without a password, and the values of its query.

    Parameters of a store's URL stay, because the settings define them and none of them is a secret."""
    scheme, divider, _ = text.partition("://")
    if not divider:
        return text
    masked = _BARE_USER.sub(f"{MASK}@", _PASSWORD.sub(rf"\g<user>:{MASK}@", text))
    place, mark, query = masked.partition("#")[0].partition("?")
    known = next((each[scheme] for each in STORE_SCHEMES if scheme in each), {})
    return place + mark + "&".join(_mask_parameter(one, known) for one in query.split("&"))


def _mask_parameter(parameter: str, known: Parameters) -> str:
    name, mark, value = parameter.partition("=")
    if not mark:
        return MASK if parameter else ""
    return f"{name}={mask_url(unquote(value)) if name in known else MASK}"


def text(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise SettingsError("must be printable text, not empty")
    return value.strip()


def secret(value: str) -> str:
    """A secret that is long enough. Spaces and newlines around it, which editors add, are removed."""
    bare = value.strip()
    if len(bare.encode()) < SECRET_BYTES_MIN:
        raise SettingsError(
            f"the secret has fewer than {SECRET_BYTES_MIN} bytes; `openssl rand -hex 32` makes a good one"
        )
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


def workers(value: str) -> int:
    """A number of processes; `auto` is the number of cores that this process may use."""
    if value.strip() == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, WORKERS_MAX)
    return whole(1, WORKERS_MAX)(value)


def choice(*words: str) -> Callable[[str], str]:
    """One of the words."""

    def parse(value: str) -> str:
        if value not in words:
            raise SettingsError(f"{value!r} is not one of {', '.join(words)}{nearest(value, words)}")
        return value

    return parse


def media_types(value: str) -> tuple[str, ...]:
    """Media types with commas between them; `*` stands for any part of one."""
    found = tuple(part.strip().lower() for part in value.split(","))
    for one in found:
        if not re.fullmatch(r"\*|[a-z0-9!#$&^_.+*-]+/[a-z0-9!#$&^_.+*-]+", one):
            raise SettingsError(f"{one!r} is not a media type such as image/png, image/* or *")
    return found


def days_or_off(value: str) -> int | None:
    """Whole days, or `off` for never."""
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
        raise SettingsError(f"{value!r} is neither a limit such as 100/60s (count/seconds) nor off")
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


def safe_user_id(value: str) -> str:
    if not is_user_id(value):
        raise SettingsError(
            f"{value[:40]!r} is not 1-128 characters of A-Z a-z 0-9 _ . @ | + : = ~ - (and not . or ..)"
        )
    return value


def safe_id(value: str) -> str:
    """An id that is safe inside a key."""
    if not is_id(value):
        raise SettingsError(f"{value[:40]!r} is not 1-128 characters of A-Z a-z 0-9 _ . @ - (and not . or ..)")
    return value


def host(value: str) -> str:
    """A name or an address, without a port; brackets around IPv6 are removed."""
    bare = text(value).removeprefix("[").removesuffix("]")
    if re.fullmatch(r"[A-Za-z0-9_.-]+", bare):
        return bare
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        raise SettingsError(
            f"{value!r} is neither a host name nor an IP address (the port has its own setting)"
        ) from None


def is_loopback(name: str) -> bool:
    """Tell whether only this machine can reach the address."""
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
    except ValueError:  # the message of urlsplit may quote a password
        is_good = False
    if not is_good:
        raise SettingsError(f"{mask_url(value)!r} is not an http:// or https:// address")
    return value.strip()


def contact(value: str) -> str:
    """The contact of RFC 8292: a push service writes there about trouble."""
    scheme, _, rest = text(value).partition(":")
    if scheme not in ("mailto", "https") or not rest.strip("/"):
        raise SettingsError(f"{value!r} is neither mailto:someone@example.com nor an https:// address")
    return value.strip()


def push_hosts(value: str) -> tuple[str, ...]:
    """Comma-separated host names, with a port unless it is 443; `*.` in front allows any name below."""
    hosts = tuple(item.strip().lower() for item in value.split(",") if item.strip())
    for item in hosts:
        if not re.fullmatch(r"(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:\d{1,5})?", item):
            raise SettingsError(f"{item!r} is not a host name such as updates.push.services.mozilla.com")
    return hosts


def picture_hosts(value: str) -> tuple[str, ...]:
    """The same, and `*` allows every host."""
    return ("*",) if value.strip() == "*" else push_hosts(value)


def login_url(value: str) -> str | None:
    """An address of the web, or a path of this host; empty = none."""
    text = value.strip()
    parts = urlsplit(text)
    is_path = text.startswith("/") and not text.startswith("//")
    if text and not is_path and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise SettingsError(f"{value!r} is neither an https:// address nor a path such as /login")
    return text or None


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
            raise SettingsError(f"{value!r} may contain only A-Z a-z 0-9 {' '.join(letters)} -, at most 64 characters")
        return value

    return parse


def _fitting(parameter: schemes.Parameter) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if not re.fullmatch(parameter.pattern, value):
            raise SettingsError(f"{value!r} {parameter.hint}")
        return value

    return parse


Parameters = dict[str, Callable[[str], object]]
_ENDPOINT: Parameters = {"endpoint": web_url}
_FILES: Parameters = {"ca": path, "cert": path, "key": path, "password_file": path}
_SERVER: Parameters = {"prefix": _prefix("_.:"), "db": whole(0, 999_999), **_FILES}
_SEVERAL: Parameters = {"prefix": _prefix("_.:"), "tls": flag, **_FILES}
_SENTINEL: Parameters = {**_SEVERAL, "sentinel_password_file": path}
_SINGLE: dict[str, Parameters] = {"redis": _SERVER, "rediss": _SERVER, "valkey": _SERVER, "valkeys": _SERVER}
KEYSPACE_SCHEMES: dict[str, Parameters] = {
    **_SINGLE,
    "unix": _SERVER,
    "redis+cluster": _SEVERAL,
    "redis+sentinel": _SENTINEL,
    "valkey+cluster": _SEVERAL,
    "valkey+sentinel": _SENTINEL,
}
QUEUES_SCHEMES: dict[str, Parameters] = {  # the prefix of the keyspace holds here too
    name: {one: parse for one, parse in parameters.items() if one != "prefix"}
    for name, parameters in KEYSPACE_SCHEMES.items()
}
TABLES_SCHEMES: dict[str, Parameters] = {
    name: {one: _fitting(parameter) for one, parameter in scheme.parameters.items()}
    for name, scheme in schemes.SCHEMES.items()
}
BLOBS_SCHEMES: dict[str, Parameters] = {
    "file": {},
    "s3": {"region": host, **_ENDPOINT},
    "gs": _ENDPOINT,
    "az": _ENDPOINT,
}
STORE_SCHEMES = (KEYSPACE_SCHEMES, TABLES_SCHEMES, BLOBS_SCHEMES)


def store(word: str, schemes: dict[str, Parameters]) -> Callable[[str], str]:
    """A store: the `word` means the embedded store, "" that there is none; the scheme of a URL chooses the adapter."""
    forms = [*filter(None, [word]), *(f"{scheme}://" for scheme in schemes)]

    def parse(value: str) -> str:
        value = text(value)
        if value == word:
            return value
        scheme, divider, rest = value.partition("://")
        if not divider or scheme not in schemes:
            given = re.split(r"[:/@?]", scheme)[0][:20] + divider  # the rest may hold a password
            raise SettingsError(f"{given!r} is not one of {', '.join(forms)}{nearest(given, forms)}")
        if not rest.strip("/"):
            raise SettingsError(f"{mask_url(value)!r} names no place after {scheme}://")
        _check_place(value)
        _check_query(value, schemes[scheme])
        return value

    return parse


def _check_place(url: str) -> None:
    if url.partition(":")[0].endswith(("+cluster", "+sentinel")):  # urlsplit does not know several hosts
        _check_hosts(url)
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SettingsError("the host of the URL has a bracket too few or too many") from None
    if parts.scheme in ("unix", "file") and (parts.netloc or not parts.path.startswith("/")):
        raise SettingsError(f"{mask_url(url)!r} has no absolute path; write three slashes: {parts.scheme}:///path")
    if parts.scheme in _SINGLE:
        try:
            _ = parts.port
        except ValueError:  # the message of urlsplit may quote a password
            raise SettingsError("the port of the URL is not a number; is the password percent-encoded?") from None
        if not re.fullmatch(r"/?\d{0,6}/?", parts.path):
            raise SettingsError("the database of the URL is not a number; is the password percent-encoded?")
    scheme = schemes.SCHEMES.get(parts.scheme)
    if scheme is not None and not re.fullmatch(scheme.place, f"{parts.netloc}{parts.path}"):
        raise SettingsError(f"{mask_url(url)!r} {scheme.place_hint}")


def _check_hosts(url: str) -> None:
    """Check host:port,host:port. No error quotes the URL: the text after a bare / or @ may be a password."""
    scheme, _, rest = url.partition("://")
    places, _, path_of_it = rest.partition("?")[0].partition("/")
    hosts = places.rpartition("@")[2].split(",")
    if scheme.endswith("+cluster") and path_of_it.strip("/") not in ("", "0"):
        raise SettingsError("a cluster has only database 0; is the password of the URL percent-encoded?")
    if scheme.endswith("+sentinel") and not re.fullmatch(r"[\w.-]+(/\d{1,6})?/?", path_of_it):
        raise SettingsError(f"the URL must end with the name of the group: {scheme}://host:26379,host:26379/mymaster")
    for one in hosts:
        found = re.fullmatch(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", one)
        if found is None or int(found[2] or 1) not in range(1, 65_536):
            raise SettingsError(f"the URL must name host:port,host:port after {scheme}://")


def _check_query(url: str, known: Parameters) -> None:
    for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if name not in known:
            valid = f"; valid: {', '.join(known)}" if known else ""
            raise SettingsError(f"unknown parameter {name!r} in the URL{valid}{nearest(name, known)}")
        try:
            known[name](value)
        except SettingsError as error:
            raise SettingsError(f"parameter {name} of the URL: {error}") from None
