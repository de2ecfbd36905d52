"""The command line: verbs, exit codes, and one clear line for a mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tidings
from tests.support.command_line import SECRET, PutNode, complaint
from tests.support.paths import PYTHONPATH
from tidings.cli.main import VERBS, main
from tidings.config.settings import Settings
from tidings.errors import StoreUnavailable, Unavailable
from tidings.stores.keyspace.embedded_folder import DataInUse

# --- words ----------------------------------------------------------------------------------------


def test_help_lists_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb in (
        "serve",
        "config",
        "token create",
        "token verify",
        "search rebuild",
        "key create",
        "unread verify",
        "unread repair",
        "tables create",
        "tables copy",
    ):
        assert f"tidings {verb}" in text


def test_help_has_one_line_for_the_verbs_that_another_package_adds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    own, _, added = capsys.readouterr().out.partition("Added by other packages:")
    count = sum(name.startswith("bench ") for name in VERBS)
    assert "bench" not in own and f"`tidings bench --help` lists {count} verbs" in added
    assert added.count("tidings bench") == 1 and "tidings torture" in added
    assert main(["bench", "--help"]) == 0
    assert capsys.readouterr().out.count("tidings bench ") == count


def test_no_verb_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "tidings serve" in capsys.readouterr().err


def test_a_verb_lists_every_setting_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--limits-send" in text and "TIDINGS_LIMITS_SEND" in text and "100/60s" in text


def test_a_store_that_is_away_is_one_line_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = f"unix://{tmp_path}/none.sock"
    assert main(["serve", "--dev", "--port", "0", "--data", str(tmp_path), "--keyspace", away]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no such socket" in line and "`tidings doctor`" in line


def test_the_help_of_another_verb_shows_its_own_flags_and_those_of_the_stores(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["token", "create", "--help"])
    text = capsys.readouterr().out
    assert "--user" in text and "--data" in text and "--limits-send" not in text
    assert main(["token", "create", "--user", "a", "--limits-send", "off", "--auth-secret", "s" * 32]) == 0


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
        "tidings.node.node",
        "tidings.node.graph",
        "tidings.gateway",
    )
    code = (
        f"import sys; from tidings.cli.main import main; main(['--help']); assert not set({heavy}) & set(sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": PYTHONPATH}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": PYTHONPATH}
    words = [sys.executable, "-m", "tidings", "version"]
    run = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, f"tidings {tidings.__version__}\n")


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
    trouble: Exception, put_node: PutNode, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        raise trouble

    put_node(serve=serve)
    line = complaint(capsys, "serve", "--auth-secret", SECRET, code=1)
    assert str(trouble).split()[-1] in line and "Errno" not in line


def test_our_own_mistake_keeps_its_traceback(put_node: PutNode) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        raise RuntimeError("a defect")

    put_node(serve=serve)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["serve", "--auth-secret", SECRET])


def test_an_interrupt_is_quiet(put_node: PutNode, capsys: pytest.CaptureFixture[str]) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        raise KeyboardInterrupt

    put_node(serve=serve)
    assert main(["serve", "--auth-secret", SECRET]) == 1
    assert capsys.readouterr() == ("", "")


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
    "webhook add --url https://hooks.example/",
    "webhook list",
    "webhook remove --id wh_1",
    "webhook replay --id wh_1 --conversation c --from-seq 1",
    "webhook secret",
    "archive run",
    "archive status",
    "archive restore --conversation c",
    "search rebuild",
    "tables check",
    "tables backup --to copy.db",
    "tables restored",
    "user erase --user u",
    "user export --user u --to u.zip",
    "import jsonl export.jsonl",
    "export --all --to out",
]


def test_every_verb_that_opens_the_stores_is_known_here() -> None:
    free = {"serve", "tables create", "tables copy", "config", "version", "token create", "token verify"}
    free |= {"doctor", "top", "torture"}
    alone = ("import ", "export ")
    looking = {verb.split()[0] if verb.startswith(alone) else " ".join(verb.split()[:2]) for verb in LOOKING}
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
