"""The form of a segment: it comes back as it was, or it is noticed."""

from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.messaging.archive import segment as segments
from tidings.messaging.archive.segment import Damaged, Ref, name_of, pack, parse_name, parse_ref, unpack
from tidings.model import Content

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
DATA = st.none() | st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53))
ANY_CONTENT = st.builds(Content, TEXT, DATA, st.booleans(), st.none() | st.integers(1, 2**53))
CONTENTS = st.dictionaries(st.integers(1, 2**53), ANY_CONTENT, min_size=1)
IDS = st.from_regex(r"(?!\.{1,2}\Z)[A-Za-z0-9_.@-]{1,128}", fullmatch=True)


@given(IDS, CONTENTS, st.integers(1, 10**9))
def test_contents_come_back_as_they_were(conversation_id: str, contents: dict[int, Content], fence: int) -> None:
    s3_ref, data = pack(conversation_id, contents, fence)
    assert unpack(conversation_id, s3_ref, data).contents == contents
    assert parse_ref(s3_ref) == (min(contents), max(contents), fence, hashlib.sha256(data[50:]).hexdigest()[:12])
    assert len(s3_ref) <= 60


def test_the_same_texts_give_the_same_segment_whatever_their_order() -> None:
    assert pack("c1", {1: Content("a"), 2: Content("b")}, 3) == pack("c1", {2: Content("b"), 1: Content("a")}, 3)
    assert pack("c1", {1: Content("a")}, 3)[0] != pack("c1", {1: Content("a")}, 4)[0]


def test_an_object_is_what_the_docs_say() -> None:
    _, data = pack("c1", {7: Content("é")}, 1)
    assert data[:18] == b"tidings segment 2\n"
    assert data[18:50] == hashlib.sha256(data[50:]).digest()
    assert zlib.decompress(data[50:]) == '{"conversation_id":"c1","contents":{"7":{"text":"é"}}}'.encode()


def test_a_segment_of_version_1_is_read() -> None:
    rest = zlib.compress('{"conversation_id":"c1","texts":{"7":"é"}}'.encode())
    digest = hashlib.sha256(rest).digest()
    segment = unpack("c1", f"7-7.1.{digest.hex()[:12]}", b"tidings segment 1\n" + digest + rest)
    assert segment.contents == {7: Content("é")}


def test_every_flipped_byte_and_every_cut_is_noticed() -> None:
    s3_ref, data = pack("c1", {1: Content("hello"), 2: Content("there")}, 1)
    for at in range(len(data)):
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        for damaged in (flipped, data[:at]):
            with pytest.raises(Damaged):
                unpack("c1", s3_ref, damaged)
    with pytest.raises(Damaged):
        unpack("c1", s3_ref, data + b"x")


def test_a_whole_segment_in_the_wrong_place_is_noticed() -> None:
    s3_ref, data = pack("c1", {1: Content("hello")}, 1)
    other_ref, other = pack("c1", {1: Content("hullo")}, 1)
    for conversation_id, ref, object_ in (("c1", s3_ref, other), ("c1", other_ref, data), ("c2", s3_ref, data)):
        with pytest.raises(Damaged):
            unpack(conversation_id, ref, object_)


def test_a_checksum_over_nonsense_is_not_enough() -> None:
    for rest in (b"not zlib", zlib.compress(b"not JSON"), zlib.compress(b'{"texts":{}}')):
        digest = hashlib.sha256(rest).digest()
        with pytest.raises(Damaged):
            unpack("c1", f"1-1.1.{digest.hex()[:12]}", segments.MAGIC + digest + rest)


@given(IDS)
def test_a_name_tells_whose_it_is_and_leads_nowhere_else(conversation_id: str) -> None:
    s3_ref = str(Ref(1, 9, 3, "0123456789ab"))
    name = name_of("a1b2", conversation_id, s3_ref)
    assert parse_name(name) == (conversation_id, s3_ref)
    assert name == name.lower()
    assert all(part not in ("", ".", "..") and len(part) <= 255 for part in name.split("/"))


def test_ids_that_differ_in_capitals_have_folders_of_their_own() -> None:
    assert name_of("a", "Team", "r").lower() != name_of("a", "team", "r").lower()


@pytest.mark.parametrize("name", ["", "a", "a/b/c", "a/00/cx/1-2.3", "a/00/x/1-2.3.0123456789ab", ".new/0123"])
def test_what_is_no_segment_is_left_alone(name: str) -> None:
    assert parse_name(name) is None


@pytest.mark.parametrize("s3_ref", ["", "1", "1-2.3", "1-2.3.x", "-1-2.3.0123456789ab", "1-2.3.0123456789ab\n"])
def test_a_reference_of_another_form_is_noticed(s3_ref: str) -> None:
    with pytest.raises(Damaged):
        parse_ref(s3_ref)
