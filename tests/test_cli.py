"""The command line: verbs, exit codes, and one clear line for a mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

import tidings
from tidings.cli import VERBS, banner, main
from tidings.config import Settings, load
from tidings.errors import StoreUnavailable, Unavailable
from tidings.node import TablesReport
from tidings.stores.keyspace_folder import DataInUse

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TIDINGS_")]:
        monkeypatch.delenv(name)


def complaint(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    assert main(words) == code
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("tidings: ") and shown.err.count("\n") == 1
    return shown.err


# --- words ----------------------------------------------------------------------------------------


def test_help_lists_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb in ("serve", "config", "token create", "key create", "unread verify", "unread repair", "tables create"):
        assert f"tidings {verb}" in text


def test_no_verb_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "tidings serve" in capsys.readouterr().err


def test_a_verb_lists_every_setting_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--limits-send" in text and "TIDINGS_LIMITS_SEND" in text and "100/60s" in text


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["serv"], "serve"),
        (["unread", "verfy"], "unread verify"),
        (["unread", "xyzzyq"], "unread repair"),
        (["bench", "snd"], "unknown word 'snd' after `tidings bench`; did you mean send?"),
        (["tokn", "create"], "did you mean token?"),
        (["top", "foo"], "'foo' is not an http:// or https:// address"),
        (["token"], "token create"),
        (["serve", "--prot", "1"], "--port"),
        (["serve", "--limits-sned=1/1s"], "--limits-send"),
        (["serve", "extra"], "extra"),
        (["serve", "--port"], "--port"),
        (["config", "--port", "x"], "port"),
        (["config", "--unread-policy", "when_ofline"], "when_offline"),
        (["config", "--config", "nowhere.toml"], "nowhere.toml"),
        (["token", "create"], "--user"),
        (["key", "create", "--name", "n", "--role", "root"], "readonly"),
    ],
)
def test_a_wrong_word_is_named_with_the_nearest(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nearest in complaint(capsys, *words)


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_the_first_word_of_two_has_help_too(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", word]) == 0
    shown = capsys.readouterr()
    assert "tidings tables create" in shown.out and "tidings tables restored" in shown.out and "serve" not in shown.out
    assert shown.err == ""


def test_a_file_is_no_data_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for verb in ("serve", "key list", "tables create", "config"):
        line = complaint(capsys, *verb.split(), "--data", "file")
        assert f"data (flag --data): {tmp_path}/file is a file, not a folder" in line


def test_trouble_with_a_file_names_it_without_a_number(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = complaint(capsys, "tables", "create", "--data", "file/data", code=1)
    assert line == f"tidings: {tmp_path}/file/data: Not a directory\n"


def test_a_setting_may_not_be_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--hos" in complaint(capsys, "config", "--hos", "localhost")


def test_the_command_starts_without_loading_the_server(tmp_path: Path) -> None:
    heavy = (
        "asyncio",
        "uvicorn",
        "starlette",
        "apsw",
        "joserfc",
        "structlog",
        "tidings.node",
        "tidings.wiring",
        "tidings.gateway",
    )
    code = f"import sys; from tidings.cli import main; main(['--help']); assert not set({heavy}) & set(sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(Path(tidings.__file__).parent.parent)}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(tidings.__file__).parent.parent)}
    words = [sys.executable, "-m", "tidings", "version"]
    run = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, f"tidings {tidings.__version__}\n")


# --- config, version, token -----------------------------------------------------------------------


def test_config_prints_every_value_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tidings.toml").write_text("[limits]\nsend = '5/1s'\n")
    monkeypatch.setenv("TIDINGS_AUTH_SECRET", SECRET)
    assert main(["config", "--port", "9", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["port"] == {"value": 9, "source": "flag --port"}
    assert shown["limits.send"] == {"value": "5/1s", "source": "file tidings.toml"}
    assert shown["auth.secret"] == {"value": "********", "source": "environment TIDINGS_AUTH_SECRET"}
    assert shown["tables"] == {"value": "sqlite", "source": "default"}


def test_config_for_people_masks_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_KEYSPACE", "redis://me:sesame@localhost:6379/0")
    assert main(["config"]) == 0
    text = capsys.readouterr().out
    assert "redis://me:********@localhost:6379/0" in text and "sesame" not in text


def test_an_unknown_variable_stops_every_verb_that_needs_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_LIMIT_SEND", "1/1s")
    assert "TIDINGS_LIMITS_SEND" in complaint(capsys, "config")
    assert main(["version"]) == 0


def test_a_token_carries_the_user_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "--user", "alice", "--ttl", "15m", "--auth-secret", SECRET]) == 0
    claims = jwt.decode(capsys.readouterr().out.strip(), OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert claims["sub"] == "alice" and int(claims["exp"]) - int(claims["iat"]) == 900
    assert set(claims) == {"sub", "iat", "exp"}


def test_a_token_names_issuer_and_audience_where_they_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    required = ["--auth-secret", SECRET, "--auth-issuer", "us", "--auth-audience", "chat"]
    assert main(["token", "create", "--user", "alice", "--json", *required]) == 0
    answer = json.loads(capsys.readouterr().out)
    claims = jwt.decode(answer["token"], OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert (claims["iss"], claims["aud"]) == ("us", "chat")
    assert answer["expires_at"] == claims["exp"] * 1000


@pytest.mark.parametrize(
    "words", [["--user", "a:b"], ["--user", "alice", "--ttl", "1w"], ["--user", "alice", "--ttl", "0s"]]
)
def test_a_bad_user_or_time_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert words[-2] in complaint(capsys, "token", "create", "--auth-secret", SECRET, *words)


def test_without_a_secret_no_token_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert "TIDINGS_AUTH_SECRET" in complaint(capsys, "token", "create", "--user", "alice")


# --- what wiring does -----------------------------------------------------------------------------


class Checked(msgspec.Struct, frozen=True):
    users: int
    wrong: list[str]


Wire = Callable[..., None]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Puts functions in the place of wiring's, so that the frame is tested without a node."""

    def put(**functions: Callable[..., object]) -> None:
        stand_in = types.ModuleType("tidings.node")
        vars(stand_in).update(functions)
        monkeypatch.setitem(sys.modules, "tidings.node", stand_in)
        monkeypatch.setattr(tidings, "node", stand_in, raising=False)

    return put


def test_serve_prints_the_urls_once_it_listens(wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        assert settings.dev and settings.auth.secret
        on_ready(1234)
        return 0

    wire(serve=serve)
    assert main(["serve", "--dev", "--port", "0", "--log-level", "error"]) == 0
    text = capsys.readouterr().out
    for place in ("/", "/docs", "/openapi.json", "/metrics", "/healthz", "/readyz", "/v1/dev/token"):
        assert f"http://127.0.0.1:1234{place}" in text
    assert "SIGN-IN IS OPEN" in text and "tidings-data" in text


def test_the_banner_is_quiet_about_dev_without_it_and_brackets_ipv6(tmp_path: Path) -> None:
    text = banner(load({"host": "::1"}, {}, tmp_path).settings, 80)
    assert "http://[::1]:80/" in text and "dev" not in text


def test_the_banner_says_how_to_make_a_key_for_this_folder(tmp_path: Path) -> None:
    assert "(a key: tidings key create --name ops)" in banner(load({}, {}, tmp_path).settings, 80)
    elsewhere = banner(load({"data": "my chat"}, {}, tmp_path).settings, 80)
    assert f"(a key: tidings key create --name ops --data '{tmp_path}/my chat')" in elsewhere


def test_serve_needs_a_secret_and_stays_on_loopback_in_dev(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "TIDINGS_AUTH_SECRET" in complaint(capsys, "serve")
    assert "0.0.0.0" in complaint(capsys, "serve", "--dev", "--host", "0.0.0.0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "trouble",
    [
        Unavailable("the keyspace\nis gone"),
        StoreUnavailable("later"),
        OSError(98, "Address already in use"),
        DataInUse(Path("d"), "unix:///d/valkey.sock"),
    ],
)
def test_the_worlds_trouble_is_one_line_and_exit_code_1(
    trouble: Exception, wire: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        raise trouble

    wire(serve=serve)
    line = complaint(capsys, "serve", "--auth-secret", SECRET, code=1)
    assert str(trouble).split()[-1] in line and "Errno" not in line


def test_our_own_mistake_keeps_its_traceback(wire: Wire) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        raise RuntimeError("a defect")

    wire(serve=serve)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["serve", "--auth-secret", SECRET])


def test_an_interrupt_is_quiet(wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        raise KeyboardInterrupt

    wire(serve=serve)
    assert main(["serve", "--auth-secret", SECRET]) == 1
    assert capsys.readouterr() == ("", "")


def test_verify_answers_1_when_something_differs_and_repair_0(wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str | None, bool]] = []

    def verify_unread(settings: Settings, user: str | None, repair: bool) -> Checked:
        asked.append((user, repair))
        return Checked(2, ["alice c1"])

    wire(verify_unread=verify_unread)
    assert main(["unread", "verify"]) == 1
    assert capsys.readouterr().out == 'users: 2\nwrong: \n  "alice c1"\n'
    assert main(["unread", "repair", "--user", "alice", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"users": 2, "wrong": ["alice c1"]}
    assert asked == [(None, False), ("alice", True)]


def test_tables_are_created_or_only_checked(wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    wire(check_tables=lambda settings, create: TablesReport("t", "", is_ok=create, differences=[] if create else ["x"]))
    assert main(["tables", "create", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["is_ok"] is True
    assert main(["tables", "check"]) == 1, "a script can tell"
    assert '"x"' in capsys.readouterr().out


# --- an installation that is not there ------------------------------------------------------------

LOOKING = [
    "key create --name ops",
    "key list",
    "key revoke --name ops",
    "unread verify",
    "unread repair",
    "limits list",
    "limits set --user u --class send --limit off",
    "limits clear --user u --class send",
    "audit tail",
    "audit replay --from 0",
    "archive run",
    "archive status",
    "archive restore --conversation c",
    "tables check",
    "tables backup --to copy.db",
    "tables restored",
]


def test_every_verb_that_opens_the_stores_is_known_here() -> None:
    free = {"serve", "tables create", "config", "version", "token create", "doctor", "top", "torture"}
    looking = {" ".join(verb.split()[:2]) for verb in LOOKING}
    assert {name for name in VERBS if not name.startswith("bench ")} - free == looking


@pytest.mark.parametrize("verb", LOOKING)
def test_no_verb_begins_an_empty_installation_by_mistake(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    named = [] if verb.startswith("key create") else ["--data", str(tmp_path / "wrong")]
    line = complaint(capsys, *verb.split(), *named)
    assert str(tmp_path / ("wrong" if named else "tidings-data")) in line and "--data or TIDINGS_DATA" in line
    assert list(tmp_path.iterdir()) == []


def test_tables_elsewhere_are_chosen_by_their_own_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = complaint(capsys, "key", "list", "--tables", f"sqlite://{tmp_path}/x.db")
    assert f"{tmp_path}/x.db" in line and "--tables or TIDINGS_TABLES" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verb", "stores"),
    [
        ("key list", ["--tables", "dynamodb://eu-west-1"]),
        ("archive run", ["--tables", "dynamodb://eu-west-1", "--keyspace", "redis://127.0.0.1:1"]),
    ],
)
def test_a_folder_is_not_made_beside_tables_elsewhere(
    verb: str, stores: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = complaint(capsys, *verb.split(), *stores)
    assert f"no data folder at {tmp_path}/tidings-data" in line and "--data" in line
    assert list(tmp_path.iterdir()) == []
