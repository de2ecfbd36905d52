"""Logs: one line an event, with fields, the node's id and a cause, and without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from tidings.errors import Unavailable, cause_of
from tidings.telemetry.logs import configure_logs


@pytest.fixture
def logs() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_both_kinds_of_logger_write_one_json_line_an_event(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", "n1")
    logging.getLogger("tidings.send").info("stored", extra={"batch": 3})
    structlog.get_logger("tidings.hub").warning("slow", connection="c1")
    stored, slow = lines(capsys)
    assert (stored["event"], stored["batch"], stored["level"], stored["logger"]) == (
        "stored",
        3,
        "info",
        "tidings.send",
    )
    assert (slow["event"], slow["connection"], slow["level"], slow["logger"]) == (
        "slow",
        "c1",
        "warning",
        "tidings.hub",
    )
    assert str(stored["timestamp"]).endswith("Z")


def test_text_and_tokens_never_reach_a_log(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", "n1")
    logging.getLogger("tidings").info("sent", extra={"text": "hello", "token": "ey.x.y"})
    structlog.get_logger().info("sent", content="hello", authorization="Bearer ey.x.y", secret="s")
    assert [name for line in lines(capsys) for name in line if line[name] == "[redacted]"] == [
        "text",
        "token",
        "content",
        "authorization",
        "secret",
    ]


def test_the_level_decides_what_is_written(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "warning", "n1")
    logging.getLogger("tidings").info("quiet")
    logging.getLogger("tidings").error("loud")
    assert [line["event"] for line in lines(capsys)] == ["loud"]


def test_an_exception_is_part_of_its_event(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", "n1")
    try:
        raise ValueError("our mistake")
    except ValueError:
        logging.getLogger("tidings").exception("failed")
    (line,) = lines(capsys)
    assert "our mistake" in str(line["exception"])


def test_access_lines_are_off(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "debug", "n1")
    logging.getLogger("uvicorn.access").info("GET /v1/ws?token=ey.x.y")
    assert capsys.readouterr().err == ""


def test_the_console_form_is_for_people(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("console", "info", "n1")
    logging.getLogger("tidings").info("listening", extra={"port": 8000})
    line = capsys.readouterr().err
    assert "listening" in line and "port=8000" in line and not line.startswith("{")


def test_every_line_names_the_node(logs: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", "n1")
    logging.getLogger("tidings.send").info("stored")
    logging.getLogger("uvicorn.error").warning("a library speaks")
    assert [line["node"] for line in lines(capsys)] == ["n1", "n1"]


def test_a_store_error_is_logged_with_the_store_the_operation_and_the_cause(
    logs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("json", "info", "n1")
    error = Unavailable("timeout after 5 s", store="tables", op="append")
    logging.getLogger("tidings").warning("store unavailable", extra=cause_of(error, conversation="c1"))
    (line,) = lines(capsys)
    said = {name: line[name] for name in ("event", "conversation", "error", "store", "op", "cause")}
    assert said == {
        "event": "store unavailable",
        "conversation": "c1",
        "error": "Unavailable",
        "store": "tables",
        "op": "append",
        "cause": "timeout after 5 s",
    }
