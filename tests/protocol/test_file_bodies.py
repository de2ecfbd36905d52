from __future__ import annotations

import msgspec

from tidings.protocol.file_bodies import NewUpload, PartBody


def test_a_part_says_from_and_to() -> None:
    part = PartBody("PUT", "/v1/uploads/x", {}, 0, 5)
    assert msgspec.json.decode(msgspec.json.encode(part)) == {
        "method": "PUT",
        "url": "/v1/uploads/x",
        "headers": {},
        "from": 0,
        "to": 5,
    }


def test_a_file_has_a_name_in_any_script() -> None:
    body = b'{"name":"\xe5\x86\x99\xe7\x9c\x9f \xf0\x9f\x8f\x96.png","mime":"image/png","bytes":1}'
    assert msgspec.json.decode(body, type=NewUpload).name.endswith(".png")
