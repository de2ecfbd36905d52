from __future__ import annotations

import pytest

from tidings.errors import BadRequest
from tidings.protocol.fields import Names, history_fields, inbox_fields


def test_the_key_of_a_row_comes_first_and_each_field_once() -> None:
    assert inbox_fields("name,conversation_id,name").rows == ("conversation_id", "name")
    assert history_fields("text,seq").rows == ("seq", "text")


def test_a_field_of_the_page_may_be_named_beside_those_of_its_rows() -> None:
    assert inbox_fields("name,next_cursor") == Names(("conversation_id", "name"), ("next_cursor",))
    assert history_fields("head") == Names(("seq",), ("head",))


@pytest.mark.parametrize("text", [None, ""])
def test_without_names_all_fields_are_wanted(text: str | None) -> None:
    assert inbox_fields(text) == history_fields(text) == Names()


@pytest.mark.parametrize("text", ["text,", ",", "Text", "__doc__", "conversation_id", "messages"])
def test_a_name_that_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="fields"):
        history_fields(text)
