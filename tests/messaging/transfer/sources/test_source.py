"""Parts that all sources share: ids, files inside an export, and reactions by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidings.errors import BadRequest
from tidings.messaging.transfer.sources.source import Users, emoji_of, file_of, members_of, opened, safe_id, type_of


def test_a_name_that_is_no_user_id_is_refused_and_map_helps() -> None:
    assert Users({"a b": "ann"})("a b") == "ann"
    with pytest.raises(BadRequest, match="--map"):
        Users({})("a b")


def test_a_path_out_of_the_export_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("x", "utf-8")
    (tmp_path / "in" / "a.txt").write_text("y", "utf-8")
    root = opened(tmp_path / "in")
    assert file_of(root, "../secret", "m1", "secret") is None
    assert file_of(root, "b.txt", "m1", "b.txt") is None
    found = file_of(root, "a.txt", "m1", "a.txt")
    assert found is not None and found.mime == "text/plain" and found.file_id.isalnum()


@pytest.mark.parametrize("named", ["text/html\r\nset-cookie: a=b", "text", "a/" + "b" * 200, "text/plain\n", 7, None])
def test_a_type_that_may_not_stand_in_a_header_is_that_of_the_name(tmp_path: Path, named: Any) -> None:
    (tmp_path / "a.png").write_text("y", "utf-8")
    found = file_of(opened(tmp_path), "a.png", "m1", "a.png", named)
    assert found is not None and found.mime == "image/png"
    assert type_of("text/x-own", "a.png") == "text/x-own" and type_of(named, "a") == "application/octet-stream"


def test_ids_are_safe_and_the_same_each_time() -> None:
    assert safe_id("zulip", "7") == "zulip-7"
    assert safe_id("zulip", "a/b") == safe_id("zulip", "a/b") != safe_id("zulip", "a b")


def test_the_first_member_owns_a_conversation_and_each_is_named_once() -> None:
    made = members_of(iter(["ann", "ben", "ann"]))
    assert [(one.user_id, one.role) for one in made] == [("ann", "owner"), ("ben", "member")]


def test_a_reaction_has_its_sign_where_it_is_known() -> None:
    assert (emoji_of("+1"), emoji_of(":heart:"), emoji_of("+1::skin-tone-2")) == ("👍", "❤️", "👍")
    assert emoji_of("our-own-sign") == "our-own-sign"


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("no zip", "utf-8")
    with pytest.raises(BadRequest, match="neither a folder nor a zip"):
        opened(tmp_path / "x.zip")
