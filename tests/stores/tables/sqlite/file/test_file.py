"""The file of the tables: who may read it, which files are refused, and that the schema holds every field."""

from __future__ import annotations

import stat
from pathlib import Path

import apsw
import msgspec
import pytest

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.model import Entry, Head, Member, Row, Status, User
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.schema import SCHEMA_VERSION
from tidings.stores.tables.values import ApiKey, Block, Device, Override, Recheck, Waiting


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tidings.db"


def execute(path: Path, sql: str) -> list[tuple[apsw.SQLiteValue, ...]]:
    connection = sqlite_file.connect(path)
    try:
        return list(connection.execute(sql).fetchall())
    finally:
        connection.close()


def test_the_names_are_made_once_and_differ_between_files(path: Path) -> None:
    made = sqlite_file.prepare(path, Clock())
    assert (len(made.store_epoch), len(made.archive_id)) == (32, 12)
    assert sqlite_file.prepare(path, Clock()) == made
    other = sqlite_file.prepare(path.with_name("other.db"), Clock())
    assert other.store_epoch != made.store_epoch and other.archive_id != made.archive_id


def test_a_statement_is_planned_once_whatever_is_bound_to_it(path: Path) -> None:
    sqlite_file.prepare(path, Clock())
    connection = sqlite_file.connect(path)
    page = "SELECT rev FROM messages WHERE conversation_id = ? AND seq_no < ? LIMIT ?"
    asked: list[int] = []

    def authorize(operation: int, *names: str | None) -> int:  # SQLite asks while it plans
        asked.append(operation)
        return apsw.SQLITE_OK

    connection.set_authorizer(authorize)
    connection.execute(page, ("c", 1, 1)).fetchall()
    planned = len(asked)
    connection.execute(page, ("c", 2, 2)).fetchall()
    connection.close()
    assert len(asked) == planned > 0


def test_a_newer_schema_is_refused_in_one_line_naming_both_versions(path: Path) -> None:
    sqlite_file.prepare(path, Clock())
    execute(path, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(Unavailable) as refusal:
        sqlite_file.prepare(path, Clock())
    text = str(refusal.value)
    assert "99" in text and f"knows {SCHEMA_VERSION}" in text and str(path) in text and "\n" not in text
    assert execute(path, "SELECT value FROM meta WHERE key = 'schema_version'") == [("99",)]


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(Unavailable, match="not one of Tidings"):
        sqlite_file.prepare(path, Clock())
    assert execute(path, "SELECT name FROM sqlite_schema") == [("theirs",)]


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"these are notes, not tables" * 100)
    with pytest.raises(Unavailable, match="cannot open"):
        sqlite_file.prepare(path, Clock())


def test_a_folder_that_does_not_exist_is_refused(path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot open"):
        sqlite_file.prepare(path / "below", Clock())


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    sqlite_file.prepare(path, Clock())
    path.chmod(0o644)
    sqlite_file.prepare(path, Clock())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_connection_is_durable_and_distrusts_the_schema(path: Path) -> None:
    sqlite_file.prepare(path, Clock())
    for is_reader in (False, True):
        connection = sqlite_file.connect(path, is_reader=is_reader)

        def pragma(name: str, connection: apsw.Connection = connection) -> object:
            return connection.execute(f"PRAGMA {name}").fetchall()[0][0]

        assert pragma("journal_mode") == "wal"
        assert pragma("synchronous") == 2  # FULL
        assert pragma("trusted_schema") == 0
        assert pragma("secure_delete") == 1
        assert pragma("temp_store") == 2  # memory: no text in temporary files
        assert pragma("query_only") == is_reader
        connection.close()


@pytest.mark.parametrize(
    ("table", "value", "other_names"),
    [
        ("messages", Entry, {"text": "content", "member": "content", "is_unavailable": "content"}),
        ("conversation_heads", Head, {}),
        ("members", Member, {}),
        ("conversations", Row, {}),
        ("message_status", Status, {}),
        ("users", User, {}),
        ("api_keys", ApiKey, {}),
        ("devices", Device, {}),
        ("pending_deliveries", Waiting, {}),
        ("rate_overrides", Override, {}),
        ("blocks", Block, {}),
        ("rechecks", Recheck, {}),
    ],
)
def test_every_field_has_its_column(
    path: Path, table: str, value: type[msgspec.Struct], other_names: dict[str, str]
) -> None:
    sqlite_file.prepare(path, Clock())
    columns = {name for (name,) in execute(path, f"SELECT name FROM pragma_table_info('{table}')")}
    assert columns == {other_names.get(field, field) for field in value.__struct_fields__}
