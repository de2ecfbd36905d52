"""Settings: one tree defines every flag, environment variable, TOML key, help text and default.

The path of a setting (`limits.send`) is its TOML key, `--limits-send` is its flag and `TIDINGS_LIMITS_SEND` its
variable. A flag wins over the environment, the environment over tidings.toml, and the file over the default. An unknown
name or a bad value stops the start with one line that names it: a typo must never become a silent default.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tidings import bounds
from tidings.config import values
from tidings.config.sections import (
    Archive,
    Auth,
    Files,
    Hooks,
    Limits,
    Log,
    Metrics,
    Node,
    Otel,
    Push,
    Tls,
    Unread,
    setting,
)
from tidings.config.values import MASK, SettingsError, nearest
from tidings.stores.tables import schemes

__all__ = [
    "ENV", "Archive", "Auth", "Files", "Hooks", "Limits", "Loaded", "Log", "Metrics", "Node", "Otel", "Push", "Row",
    "Settings", "Unread", "blobs_url", "guess_sources", "load", "rows", "shown", "tables_url", "value_of",
]  # fmt: skip

ENV = "TIDINGS_"
FILE = "tidings.toml"
CONFIG_ENV = ENV + "CONFIG"  # names the file, so it is not a setting inside the file


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings. `Settings()` holds the defaults."""

    host: str = setting("127.0.0.1", values.host, "address to listen on")
    port: int = setting("8000", values.whole(0, 65_535), "port to listen on; 0 = any free port")
    workers: int = setting("1", values.workers, "processes that share the port; auto = one for each core")
    data: Path = setting("./tidings-data", values.path, "folder of the embedded stores")
    keyspace: str = setting(
        "embedded",
        values.store("embedded", values.KEYSPACE_SCHEMES),
        "embedded, redis:// (or valkey://), rediss://, unix://, redis+sentinel:// or redis+cluster://; ?prefix=",
        has_file=True,
    )
    keyspace_queues: str | None = setting(
        None,
        values.store("", values.QUEUES_SCHEMES),
        "URL of another keyspace for the audit and push streams; unset = the same keyspace",
        has_file=True,
    )
    tables: str = setting(schemes.DEFAULT, values.store(schemes.DEFAULT, values.TABLES_SCHEMES), schemes.examples())
    blobs: str = setting("file", values.store("file", values.BLOBS_SCHEMES), "file, file:///path or s3://bucket/prefix")
    auth: Auth = dataclasses.field(default_factory=Auth)
    limits: Limits = dataclasses.field(default_factory=Limits)
    unread: Unread = dataclasses.field(default_factory=Unread)
    archive: Archive = dataclasses.field(default_factory=Archive)
    push: Push = dataclasses.field(default_factory=Push)
    hooks: Hooks = dataclasses.field(default_factory=Hooks)
    files: Files = dataclasses.field(default_factory=Files)
    allowed_origins: tuple[str, ...] = setting(
        "", values.origins, "comma-separated origins of browsers that may connect; empty = same origin"
    )
    picture_hosts: tuple[str, ...] = setting(
        "",
        values.picture_hosts,
        "hosts from which pictures may come; *.host = any name below it, * = any, empty = none (with --dev: any)",
    )
    directory: str | None = setting(
        None,
        values.choice("off", "shared", "all"),
        "people whom a user can find: all, shared = of shared conversations, off; unset = all with --dev, else shared",
    )
    login_url: str | None = setting(
        "",
        values.login_url,
        "address of the login page of the team; people who are not signed in are sent there",
    )
    members_max: int = setting(
        str(bounds.MEMBERS_MAX), values.whole(2, bounds.MEMBERS_MAX), "largest number of members of one conversation"
    )
    members_large: int = setting(
        str(bounds.MEMBERS_LARGE),
        values.whole(2, bounds.MEMBERS_MAX),
        "above this number of members, a message writes nothing for each member",
    )
    node: Node = dataclasses.field(default_factory=Node)
    log: Log = dataclasses.field(default_factory=Log)
    tls: Tls = dataclasses.field(default_factory=Tls)
    metrics: Metrics = dataclasses.field(default_factory=Metrics)
    otel: Otel = dataclasses.field(default_factory=Otel)
    dev: bool = setting("false", values.flag, "open sign-in for everybody, on loopback only", is_flag_only=True)


@dataclasses.dataclass(frozen=True)
class Row:
    """One setting with its names."""

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
    """The settings, and the source of each value by path."""

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

    `file` comes from --config and must exist. Without it, tidings.toml in `cwd` is read if it exists.
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
        raise SettingsError(f"bad value for data ({sources['data']}): {data} is a file, not a folder; name a folder")
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

OTHER_NAMES = {  # settings that stand beside TIDINGS_HOOKS_BEFORE_SEND_URL, as a reader of that name spells them
    ENV + "HOOKS_BEFORE_SEND_TIMEOUT_MS": ENV + "HOOKS_TIMEOUT_MS",
    ENV + "HOOKS_BEFORE_SEND_ON_FAILURE": ENV + "HOOKS_ON_FAILURE",
}


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    by_name = {row.variable: row for row in rows() if not row.has("is_flag_only")}
    by_file = {row.variable + "_FILE": row for row in by_name.values() if row.has("has_file")}
    by_name |= {other: by_name[name] for other, name in OTHER_NAMES.items()}
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(name for name in environ if name.startswith(ENV) and name != CONFIG_ENV):
        if name in by_name:
            if name in OTHER_NAMES:
                _refuse_twice(name, by_name[name], environ)
            found[by_name[name].path] = (environ[name], f"environment {name}")
        elif name in by_file:
            _refuse_twice(name, by_file[name], environ)
            found[by_file[name].path] = (_read_secret(name, environ[name]), f"file named by {name}")
        else:
            raise SettingsError(f"unknown setting {name} in the environment{nearest(name, [*by_name, *by_file])}")
    return found


def _refuse_twice(name: str, row: Row, environ: Mapping[str, str]) -> None:
    if row.variable in environ:
        raise SettingsError(f"both {row.variable} and {name} are set; unset one of them")


def _read_secret(name: str, file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"bad value for {name}: cannot read {file}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "the file is not UTF-8 text"


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
        raise SettingsError(f"{file} is not valid TOML: {error}; correct the file") from None
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
    raise SettingsError(f"bad value for {path} (file {file}): write the value as text or as a whole number")


# --- showing --------------------------------------------------------------------------------------


def guess_sources(settings: Settings) -> dict[str, str]:
    """Where each setting of a node that a program started came from: its default, or the program."""
    usual = Settings()
    return {
        row.path: "default" if value_of(settings, row.path) == value_of(usual, row.path) else "program"
        for row in rows()
    }


def shown(row: Row, settings: Settings) -> str | int | bool | None:
    """The value for the operator, with secrets and passwords masked."""
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


def blobs_url(settings: Settings) -> str:
    return (settings.data / "blobs").absolute().as_uri() if settings.blobs == "file" else settings.blobs


def tables_url(settings: Settings) -> str:
    return schemes.url_of(settings.tables, settings.data)
