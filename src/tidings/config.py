"""Every setting, once: this tree gives the flags, the environment names, the TOML keys, the help and the defaults.

A setting's path (`limits.send`) is its TOML key, `--limits-send` its flag, `TIDINGS_LIMITS_SEND` its variable. A flag
wins over the environment, that over tidings.toml, that over the default. Whatever is unknown or malformed stops the
start with one line that names it: a typo must never be a silent default. Called by cli; wiring gets the finished tree.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tidings import bounds
from tidings import config_values as values
from tidings.clock import Clock
from tidings.config_values import MASK, Limit, SettingsError, nearest

ENV = "TIDINGS_"
FILE = "tidings.toml"
CONFIG_ENV = ENV + "CONFIG"  # the file itself may be named by the environment: it is not a setting inside it


def setting(default: str | Callable[[], str] | None, parse: Callable[[str], Any], about: str, **traits: bool) -> Any:
    """A leaf of the tree. A default text goes through the parser like any other; a callable makes one per process.

    Traits: `is_secret` (never shown), `has_file` (a `_FILE` variable too), `is_flag_only` (a deed, not a setting).
    """
    metadata = {"parse": parse, "about": about, "traits": frozenset(name for name, holds in traits.items() if holds)}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=None if default is None else parse(default), metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Auth:
    secret: str | None = setting(None, values.secret, "HS256 secret of user tokens", is_secret=True, has_file=True)
    jwks_url: str | None = setting(None, values.web_url, "where the public keys of user tokens are", has_file=True)
    issuer: str | None = setting(None, values.text, "required `iss` of user tokens; unset = any")
    audience: str | None = setting(None, values.text, "required `aud` of user tokens; unset = any")
    role_claim: str = setting("role", values.text, "the claim of a user token that names a role, for limits")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    send: Limit | None = setting("100/60s", values.limit, "messages sent, per user")
    read: Limit | None = setting("6000/60s", values.limit, "inbox, history, receipts and marks, per user")
    typing: Limit | None = setting("600/60s", values.limit, "typing frames, per user")
    connect: Limit | None = setting("300/60s", values.limit, "connects, per user")
    http: Limit | None = setting("6000/60s", values.limit, "REST requests, per user")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unread:
    cap: int = setting("10000", values.whole(1, 1_000_000), "unread kept exactly per conversation and member")
    ttl_days: int = setting("30", values.whole(1, 3_650), "days an unread set stays in the keyspace untouched")
    policy: str = setting("until_read", values.choice("until_read", "when_offline"), "until_read or when_offline")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Archive:
    after_days: int | None = setting(
        "30", values.days_or_off, "days until text moves to blobs; 0 = at once, off = never"
    )
    every_s: int = setting("3600", values.whole(1, 86_400), "seconds between two looks for what to move, about")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Push:
    grace_s: int = setting("10", values.whole(5, 3_600), "seconds a device has to acknowledge before it is pushed to")
    preview: bool = setting("false", values.flag, "whether a push carries the beginning of the message")
    apns_key_file: Path | None = setting(None, values.path, "the .p8 key of Apple's push service; unset = not used")
    apns_key_id: str | None = setting(None, values.text, "the key's id")
    apns_team_id: str | None = setting(None, values.text, "the team's id")
    apns_topic: str | None = setting(None, values.text, "the app's bundle id")
    apns_url: str = setting("https://api.push.apple.com", values.web_url, "Apple's push service")
    fcm_credentials_file: Path | None = setting(
        None, values.path, "the JSON file of a Firebase service account; unset = not used"
    )
    fcm_url: str = setting("https://fcm.googleapis.com", values.web_url, "Google's push service")
    vapid_key_file: Path | None = setting(None, values.path, "the PEM P-256 key of Web Push; unset = not used")
    vapid_contact: str | None = setting(None, values.contact, "mailto: or https: address that push services may use")
    webpush_hosts: tuple[str, ...] = setting(
        "fcm.googleapis.com,*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com",
        values.push_hosts,
        "push services that browsers may name; *. = any name below",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    id: str = setting(lambda: Clock().random_id(6), values.safe_id, "this process's name; no other node may have it")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    format: str = setting("auto", values.choice("auto", "console", "json"), "console, json, or auto: console on a tty")
    level: str = setting("info", values.choice("debug", "info", "warning", "error"), "debug, info, warning or error")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Otel:
    endpoint: str | None = setting(None, values.web_url, "OTLP collector of traces: http://host:4318; unset = off")
    every: int = setting("100", values.whole(1, 1_000_000), "one batch in so many is traced")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The finished settings. `Settings()` is the defaults."""

    host: str = setting("127.0.0.1", values.host, "address to listen on")
    port: int = setting("8000", values.whole(0, 65_535), "port to listen on; 0 = any free one")
    data: Path = setting("./tidings-data", values.path, "folder of the embedded stores")
    keyspace: str = setting(
        "embedded",
        values.store("embedded", values.KEYSPACE_SCHEMES),
        "embedded, redis://, rediss://, unix:// or redis+cluster://; ?prefix=",
        has_file=True,
    )
    tables: str = setting(
        "sqlite", values.store("sqlite", values.TABLES_SCHEMES), "sqlite, sqlite:///path or dynamodb://region"
    )
    blobs: str = setting("file", values.store("file", values.BLOBS_SCHEMES), "file, file:///path or s3://bucket/prefix")
    auth: Auth = dataclasses.field(default_factory=Auth)
    limits: Limits = dataclasses.field(default_factory=Limits)
    unread: Unread = dataclasses.field(default_factory=Unread)
    archive: Archive = dataclasses.field(default_factory=Archive)
    push: Push = dataclasses.field(default_factory=Push)
    allowed_origins: tuple[str, ...] = setting("", values.origins, "comma-separated origins; empty = same origin")
    members_max: int = setting(
        str(bounds.MEMBERS_MAX), values.whole(2, bounds.MEMBERS_MAX), "members of one conversation at most"
    )
    node: Node = dataclasses.field(default_factory=Node)
    log: Log = dataclasses.field(default_factory=Log)
    otel: Otel = dataclasses.field(default_factory=Otel)
    dev: bool = setting("false", values.flag, "open sign-in, on loopback only", is_flag_only=True)


@dataclasses.dataclass(frozen=True)
class Row:
    """One leaf of the tree, with its names."""

    path: str
    field: dataclasses.Field[Any]

    @property
    def flag(self) -> str:
        return "--" + self.path.replace(".", "-").replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV + self.path.replace(".", "_").upper()

    @property
    def about(self) -> str:
        return str(self.field.metadata["about"])

    def has(self, trait: str) -> bool:
        return trait in self.field.metadata["traits"]

    def parse(self, value: str, source: str) -> Any:
        try:
            return self.field.metadata["parse"](value)
        except SettingsError as error:
            raise SettingsError(f"bad value for {self.path} ({source}): {error}") from None


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The settings, and for each path where its value came from."""

    settings: Settings
    sources: dict[str, str]


def rows() -> tuple[Row, ...]:
    """Every setting in the order of the tree."""
    return tuple(_rows(Settings, ""))


def _rows(tree: type[Any], prefix: str) -> Iterator[Row]:
    for field in dataclasses.fields(tree):
        if "parse" in field.metadata:
            yield Row(prefix + field.name, field)
        else:
            yield from _rows(_branch(field), f"{prefix}{field.name}.")


def _branch(field: dataclasses.Field[Any]) -> type[Any]:
    """The class of a field that holds settings of its own: it is the field's default factory."""
    return cast(type[Any], field.default_factory)


def value_of(settings: Settings, path: str) -> Any:
    """The value at a path such as `limits.send`."""
    value: Any = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value


def load(flags: Mapping[str, str], environ: Mapping[str, str], cwd: Path, file: str | None = None) -> Loaded:
    """Settings from flags (path -> text), environment, TOML file and defaults; raises SettingsError.

    `file` is what --config named: it must exist. Without it tidings.toml in `cwd` is read if it is there.
    """
    found: dict[str, tuple[str, str]] = {}  # path -> (text, source); the later layer wins
    found.update(_from_toml(_toml_file(file or environ.get(CONFIG_ENV), cwd)))
    found.update(_from_environment(environ))
    known = {row.path: row for row in rows()}
    found.update({path: (value, f"flag {known[path].flag}") for path, value in flags.items()})
    parsed = {path: known[path].parse(value, source) for path, (value, source) in found.items()}
    settings = _build(Settings, "", parsed)
    sources = {path: found[path][1] if path in found else "default" for path in known}
    if sources["node.id"] == "default":
        sources["node.id"] = "random"
    data = cwd / settings.data
    if data.exists() and not data.is_dir():
        raise SettingsError(f"bad value for data ({sources['data']}): {data} is a file, not a folder")
    return Loaded(dataclasses.replace(settings, data=data), sources)


def _build(tree: type[Any], prefix: str, parsed: Mapping[str, Any]) -> Any:
    given: dict[str, Any] = {}
    for field in dataclasses.fields(tree):
        path = prefix + field.name
        if "parse" not in field.metadata:
            given[field.name] = _build(_branch(field), path + ".", parsed)
        elif path in parsed:
            given[field.name] = parsed[path]
    return tree(**given)


# --- the environment ------------------------------------------------------------------------------


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    by_name = {row.variable: row for row in rows() if not row.has("is_flag_only")}
    by_file = {row.variable + "_FILE": row for row in by_name.values() if row.has("has_file")}
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(name for name in environ if name.startswith(ENV) and name != CONFIG_ENV):
        if name in by_name:
            found[by_name[name].path] = (environ[name], f"environment {name}")
        elif name in by_file:
            _refuse_twice(name, by_file[name], environ)
            found[by_file[name].path] = (_read_secret(name, environ[name]), f"file named by {name}")
        else:
            raise SettingsError(f"unknown setting {name} in the environment{nearest(name, [*by_name, *by_file])}")
    return found


def _refuse_twice(name: str, row: Row, environ: Mapping[str, str]) -> None:
    if row.variable in environ:
        raise SettingsError(f"both {row.variable} and {name} are set; keep one")


def _read_secret(name: str, file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"bad value for {name}: cannot read {file}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not text"


# --- the file -------------------------------------------------------------------------------------


def _toml_file(named: str | None, cwd: Path) -> Path | None:
    if named:
        return cwd / Path(named).expanduser()
    usual = cwd / FILE
    return usual if usual.is_file() else None


def _from_toml(file: Path | None) -> dict[str, tuple[str, str]]:
    if file is None:
        return {}
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {file}: {_reason(error)}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}") from None
    known = {row.path for row in rows() if not row.has("is_flag_only")}
    return {path: (value, f"file {file.name}") for path, value in _leaves(document, "", known, file.name)}


def _leaves(table: Mapping[str, Any], prefix: str, known: set[str], file: str) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        path = prefix + name
        if path in known:
            yield path, _toml_text(path, value, file)
        elif isinstance(value, dict) and any(other.startswith(path + ".") for other in known):
            yield from _leaves(value, path + ".", known, file)
        else:
            raise SettingsError(f"unknown setting {path} in {file}{nearest(path, known)}")


def _toml_text(path: str, value: Any, file: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise SettingsError(f"bad value for {path} (file {file}): write it as text or as a whole number")


# --- showing --------------------------------------------------------------------------------------


def shown(row: Row, settings: Settings) -> str | int | bool | None:
    """The value as an operator may see it: secrets and passwords masked."""
    value = value_of(settings, row.path)
    if value is None:
        return "off" if row.path.startswith(("limits.", "archive.")) else None
    if row.has("is_secret"):
        return MASK
    if isinstance(value, bool | int):
        return value
    if isinstance(value, tuple):
        return ",".join(value)
    return values.mask_url(str(value))
