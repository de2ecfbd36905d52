from __future__ import annotations

import gzip
import re

from tidings.gateway.http.page.assets import packed
from tidings.gateway.http.web import read_files

FIRST_BYTES_MAX = 110_000


def contents() -> dict[str, bytes]:
    return {name: one.content for name, one in read_files().items()}


def test_the_page_names_one_script_and_one_style_sheet_by_their_content() -> None:
    page = packed(contents())
    names = re.findall(r'(?:href|src)="/assets/([^"]+)"', page.index.decode())
    assert [name.rsplit(".")[1] for name in names] == ["svg", "css", "js"]
    (later,) = set(page.assets) - set(names)
    assert f'<meta name="later" content="/assets/{later}">' in page.index.decode()
    changed = packed(contents() | {"app/shell.css": b"body { color: red }"})
    assert len(set(page.assets) & set(changed.assets)) == 3


def test_the_two_scripts_name_each_other_and_change_their_names_together() -> None:
    page = packed(contents())
    later = next(name for name in page.assets if name.startswith("later-"))
    first = next(name for name in page.assets if name.startswith("page-") and name.endswith(".js"))
    assert f"import('/assets/{later}')".encode() in page.assets[first]
    assert f"from '/assets/{first}'".encode() in page.assets[later]
    for changed_name in ("app/main.js", "app/thread/forward.js"):
        changed = packed(contents() | {changed_name: contents()[changed_name] + b"\nfunction more() {}\n"})
        assert {first, later}.isdisjoint(changed.assets)


def test_the_first_visit_is_small_in_every_language() -> None:
    page = packed(contents())
    words = [content for name, content in contents().items() if re.fullmatch(r"app/words/[a-z]{2}\.js", name)]
    sent = [page.index, *(content for name, content in page.assets.items() if not name.startswith("later-"))]
    most = max(len(gzip.compress(one)) for one in words)
    assert sum(len(gzip.compress(one)) for one in sent) + most < FIRST_BYTES_MAX


def test_the_login_of_the_team_is_named_in_the_page_and_nothing_breaks_out_of_it() -> None:
    assert b"login-url" not in packed(contents()).index
    page = packed(contents(), 'https://id.example/?a="><script>')
    assert b'content="https://id.example/?a=&quot;&gt;&lt;script&gt;"' in page.index
