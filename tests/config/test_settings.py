"""Settings: one definition, four sources, and a clear line for every mistake."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_line import SECRET
from tidings.bounds import Limit
from tidings.config import settings as config
from tidings.config.settings import Loaded, Settings, load, rows, shown, value_of
from tidings.config.values import SettingsError

ROOT = Path(__file__).resolve().parents[2]


def loaded(
    cwd: Path, *, flags: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None, toml: str | None = None
) -> Loaded:
    if toml is not None:
        (cwd / "tidings.toml").write_text(toml)
    return load(flags or {}, env or {}, cwd)


def complaint(cwd: Path, **sources: object) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(cwd, **sources)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_defaults_are_those_of_the_protocol(tmp_path: Path) -> None:
    settings = loaded(tmp_path).settings
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.data == tmp_path / "tidings-data"
    assert (settings.keyspace, settings.tables, settings.blobs) == ("embedded", "sqlite", "file")
    assert settings.auth.secret is None and settings.auth.jwks_url is None
    assert settings.limits.send == Limit(100, 60)
    assert (settings.unread.cap, settings.unread.ttl_days, settings.unread.policy) == (10_000, 30, "until_read")
    assert settings.archive.after_days == 30
    assert settings.allowed_origins == () and settings.members_max == 100_000 and not settings.dev


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    toml, env = "port = 1\nhost = 'a'\n[unread]\ncap = 5", {"TIDINGS_PORT": "2", "TIDINGS_HOST": "b"}
    found = loaded(tmp_path, toml=toml, env=env, flags={"port": "3"})
    assert (found.settings.port, found.settings.host, found.settings.unread.cap) == (3, "b", 5)
    assert found.sources["port"] == "flag --port"
    assert found.sources["host"] == "environment TIDINGS_HOST"
    assert found.sources["unread.cap"] == "file tidings.toml"
    assert found.sources["data"] == "default"


def test_every_setting_can_be_given_by_each_of_its_names(tmp_path: Path) -> None:
    texts = {
        "auth.secret": SECRET,
        "auth.jwks_url": "https://id.example/jwks",
        "auth.secret_previous": SECRET,
        "auth.jwks_proxy": "http://proxy.example:3128",
        "auth.issuer": "i",
        "auth.audience": "a",
        "keyspace_queues": "redis://queues.internal:6379",
        "push.preview": "true",
        "hooks.private_addresses": "true",
        "hooks.before_send_url": "https://hooks.example/judge",
        "hooks.on_failure": "refuse",
        "picture_hosts": "*.pictures.example,cdn.example",
        "directory": "all",
        "login_url": "https://id.example/login",
        "push.vapid_contact": "mailto:ops@chat.example",
        "metrics.port": "9100",
        "otel.endpoint": "http://127.0.0.1:4318",
    }
    for row in rows():
        if row.has("is_flag_only"):
            continue
        text = texts.get(row.path, "n1" if row.path == "node.id" else str(shown(row, Settings())))
        text = text or "https://chat.example"
        by_flag = loaded(tmp_path, flags={row.path: text})
        by_env = loaded(tmp_path, env={row.variable: text})
        assert value_of(by_flag.settings, row.path) == value_of(by_env.settings, row.path) is not None
        assert by_env.sources[row.path] == f"environment {row.variable}"


def test_limits_are_a_count_and_a_window_or_off(tmp_path: Path) -> None:
    env = {"TIDINGS_LIMITS_SEND": "5/2s", "TIDINGS_LIMITS_READ": "off"}
    limits = loaded(tmp_path, env=env).settings.limits
    assert limits.send == Limit(5, 2) and limits.read is None
    for bad in ("5", "5/2", "0/60s", "5/0s", "-1/60s", "5/60m", "five/60s", "5/99999s"):
        assert "limits.send" in complaint(tmp_path, env={"TIDINGS_LIMITS_SEND": bad})


def test_archiving_may_be_at_once_or_never(tmp_path: Path) -> None:
    assert loaded(tmp_path, env={"TIDINGS_ARCHIVE_AFTER_DAYS": "0"}).settings.archive.after_days == 0
    assert loaded(tmp_path, env={"TIDINGS_ARCHIVE_AFTER_DAYS": "off"}).settings.archive.after_days is None


def test_a_login_is_an_address_or_a_path(tmp_path: Path) -> None:
    assert loaded(tmp_path).settings.login_url is None
    for good in ("https://id.example/login?app=chat", "/login"):
        assert loaded(tmp_path, env={"TIDINGS_LOGIN_URL": good}).settings.login_url == good
    for bad in ("javascript:alert(1)", "//id.example", "login", "https://"):
        assert "login_url" in complaint(tmp_path, env={"TIDINGS_LOGIN_URL": bad})


def test_origins_are_a_list(tmp_path: Path) -> None:
    both = ("https://a.example", "http://b.example:81")
    assert loaded(tmp_path, toml=f"allowed_origins = {list(both)}").settings.allowed_origins == both
    env = {"TIDINGS_ALLOWED_ORIGINS": "https://A.example/, http://b.example:81"}
    assert loaded(tmp_path, env=env).settings.allowed_origins == both
    assert "https://a.example/page" in complaint(tmp_path, flags={"allowed_origins": "https://a.example/page"})


@pytest.mark.parametrize(
    ("source", "given", "nearest"),
    [
        ("env", {"TIDINGS_PROT": "1"}, "TIDINGS_PORT"),
        ("env", {"TIDINGS_AUTH_SECRT_FILE": "x"}, "TIDINGS_AUTH_SECRET_FILE"),
        ("env", {"TIDINGS_UNREAD_POLICY": "when_ofline"}, "when_offline"),
        ("env", {"TIDINGS_KEYSPACE": "rdis://h:1"}, "redis://"),
        ("env", {"TIDINGS_KEYSPACE": "redis://h:1?prefx=a"}, "prefix"),
        ("env", {"TIDINGS_TABLES": "sqlit"}, "sqlite"),
        ("env", {"TIDINGS_PORT": "70000"}, "65535"),
        ("toml", "prot = 1", "port"),
        ("toml", "[limits]\nsned = '1/1s'", "limits.send"),
        ("toml", "[unraed]\ncap = 1", "unread"),
        ("toml", "[log]\nlevel = 'inf'", "info"),
        ("toml", "limits = 'x'", "limits"),
    ],
)
def test_a_mistake_names_itself_and_the_nearest_valid_one(
    tmp_path: Path, source: str, given: object, nearest: str
) -> None:
    line = complaint(tmp_path, **{source: given})
    assert nearest in line
    name = next(iter(given)) if isinstance(given, dict) else ""
    assert name in line or "bad value for " + name.removeprefix("TIDINGS_").lower().replace("_", ".", 1) in line


@pytest.mark.parametrize(
    "env",
    [
        {"TIDINGS_PORT": "eight"},
        {"TIDINGS_PORT": ""},
        {"TIDINGS_HOST": "a b"},
        {"TIDINGS_HOST": "127.0.0.1:80"},
        {"TIDINGS_NODE_ID": "a:b"},
        {"TIDINGS_MEMBERS_MAX": "100001"},
        {"TIDINGS_TABLES": "sqlite://relative.db"},
        {"TIDINGS_KEYSPACE": "unix://relative.sock"},
        {"TIDINGS_KEYSPACE": "redis://"},
        {"TIDINGS_KEYSPACE": "redis://h:1?prefix={x}"},
        {"TIDINGS_KEYSPACE": "redis://h:1/xyz"},
        {"TIDINGS_KEYSPACE": "redis://h:1?db=abc"},
        {"TIDINGS_KEYSPACE": "redis+cluster://h1:x,h2"},
        {"TIDINGS_KEYSPACE": "redis+cluster://h1:1,,h2"},
        {"TIDINGS_KEYSPACE": "redis+cluster://h1:1?tls=maybe"},
        {"TIDINGS_KEYSPACE": "redis+cluster://h1:99999"},
        {"TIDINGS_KEYSPACE": "redis+cluster://h1:1/2"},
        {"TIDINGS_TABLES": "dynamodb://eu west"},
        {"TIDINGS_TABLES": "dynamodb://eu-west-1?prefix=a:b"},
        {"TIDINGS_TABLES": "dynamodb://eu-west-1/table"},
        {"TIDINGS_TABLES": "dynamodb://eu-west-1?dedupe=foo"},
        {"TIDINGS_TABLES": "dynamodb://eu-west-1?links=x"},
        {"TIDINGS_TABLES": "dynamodb://eu-west-1?endpoint=zz"},
        {"TIDINGS_BLOBS": "s3://bucket/prefix?endpoint=zzz"},
        {"TIDINGS_BLOBS": "s3://bucket/prefix?endpoint=http://h:port"},
        {"TIDINGS_AUTH_JWKS_URL": "ftp://id.example/jwks"},
        {"TIDINGS_AUTH_JWKS_URL": "https://[id.example/jwks"},
        {"TIDINGS_DEV": "true"},
    ],
)
def test_a_bad_value_is_refused_by_name(tmp_path: Path, env: dict[str, str]) -> None:
    (name,) = env
    line = complaint(tmp_path, env=env)
    assert name in line, line


def test_urls_of_later_stores_are_understood(tmp_path: Path) -> None:
    env = {
        "TIDINGS_KEYSPACE": "redis+cluster://me:pass%2Fword@a:1,[::1]:2,b?prefix=t1:&tls=true",
        "TIDINGS_TABLES": "dynamodb://eu-west-1?prefix=tidings_&endpoint=http://127.0.0.1:8001",
        "TIDINGS_BLOBS": "s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1",
    }
    settings = loaded(tmp_path, env=env).settings
    assert [settings.keyspace, settings.tables, settings.blobs] == list(env.values())


def test_a_file_that_is_named_must_exist_and_be_toml(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        load({}, {}, tmp_path, "nowhere.toml")
    assert "not valid TOML" in complaint(tmp_path, toml="port = = 1")
    (tmp_path / "other.toml").write_text("port = 9")
    assert load({}, {}, tmp_path, "other.toml").settings.port == 9
    assert load({}, {"TIDINGS_CONFIG": "other.toml"}, tmp_path / ".").settings.port == 9


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(SECRET + "\n")
    (tmp_path / "k").write_text("redis://:word@h:1/0\n")
    env = {"TIDINGS_AUTH_SECRET_FILE": str(tmp_path / "s"), "TIDINGS_KEYSPACE_FILE": str(tmp_path / "k")}
    found = loaded(tmp_path, env=env)
    assert found.settings.auth.secret == SECRET and found.settings.keyspace == "redis://:word@h:1/0"
    assert found.sources["auth.secret"] == "file named by TIDINGS_AUTH_SECRET_FILE"
    assert "both TIDINGS_AUTH_SECRET and" in complaint(tmp_path, env={**env, "TIDINGS_AUTH_SECRET": SECRET})
    assert "cannot read" in complaint(tmp_path, env={"TIDINGS_AUTH_SECRET_FILE": str(tmp_path / "none")})


def test_secrets_and_passwords_are_never_shown(tmp_path: Path) -> None:
    env = {"TIDINGS_AUTH_SECRET": SECRET, "TIDINGS_KEYSPACE": "rediss://me:pass-word@h:1/0?prefix=a"}
    settings = loaded(tmp_path, env=env).settings
    text = " ".join(str(shown(row, settings)) for row in rows())
    assert SECRET not in text and "pass-word" not in text
    assert "rediss://me:********@h:1/0?prefix=a" in text
    odd = dataclasses.replace(settings, keyspace="redis+cluster://me:pass/word@x@h:1,i:2")
    assert [shown(row, odd) for row in rows() if row.path == "keyspace"] == ["redis+cluster://me:********@h:1,i:2"]


def test_a_bad_secret_or_url_is_not_repeated(tmp_path: Path) -> None:
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_AUTH_SECRET": "sesame"})
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_KEYSPACE": "redis://u:sesame@h:1?x=1"})
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_KEYSPACE": "redis://u:sesame@h:port"})
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_KEYSPACE": "rediss//u:sesame@h"})
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_KEYSPACE": "redis://u:1/sesame@h"})
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_KEYSPACE": "redis+cluster://u:open/sesame,h"})
    assert "sesame" not in complaint(tmp_path, env={"TIDINGS_AUTH_JWKS_URL": "ftp://u:sesame@h"})


def test_a_node_has_a_random_id_unless_it_is_given_one(tmp_path: Path) -> None:
    first, second = loaded(tmp_path), loaded(tmp_path)
    assert first.settings.node.id != second.settings.node.id and first.sources["node.id"] == "random"
    assert loaded(tmp_path, env={"TIDINGS_NODE_ID": "n1"}).settings.node.id == "n1"


# --- the page -------------------------------------------------------------------------------------


def test_the_operations_page_has_the_table_of_settings() -> None:
    assert settings_table() in (ROOT / "docs" / "run" / "operations.md").read_text("utf-8")


def settings_table() -> str:
    """The table of docs/run/operations.md; run this file to print it."""
    lines = ["| setting | variable | default | what it is |", "|---|---|---|---|"]
    for row in rows():
        default = "random" if row.path == "node.id" else shown(row, Settings())
        cell = "" if default in (None, "") else f"`{default}`"
        variable = "flag only" if row.has("is_flag_only") else f"`{row.variable}`"
        variable += " (`_FILE`)" if row.has("has_file") else ""
        lines.append(f"| `{row.path}` | {variable} | {cell} | {row.about} |")
    return "\n".join(lines) + "\n"


def test_the_tree_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.Settings().port = 1  # type: ignore[misc]


if __name__ == "__main__":
    print(settings_table())


def test_the_hook_before_a_send_has_its_settings_under_its_own_name_too(tmp_path: Path) -> None:
    prefix = "TIDINGS_HOOKS_BEFORE_SEND_"
    hooks = load({}, {prefix + "TIMEOUT_MS": "50", prefix + "ON_FAILURE": "refuse"}, tmp_path).settings.hooks
    assert (hooks.timeout_ms, hooks.on_failure) == (50, "refuse")
    with pytest.raises(SettingsError, match="both"):
        load({}, {prefix + "TIMEOUT_MS": "50", "TIDINGS_HOOKS_TIMEOUT_MS": "50"}, tmp_path)
