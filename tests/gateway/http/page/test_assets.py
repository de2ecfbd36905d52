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
    assert set(names) == set(page.assets)
    changed = packed(contents() | {"app/shell.css": b"body { color: red }"})
    assert len(set(page.assets) & set(changed.assets)) == 2


def test_the_first_visit_is_small() -> None:
    page = packed(contents())
    sent = [page.index, *page.assets.values()]
    assert sum(len(gzip.compress(one)) for one in sent) < FIRST_BYTES_MAX


def test_the_login_of_the_team_is_named_in_the_page_and_nothing_breaks_out_of_it() -> None:
    assert b"login-url" not in packed(contents()).index
    page = packed(contents(), 'https://id.example/?a="><script>')
    assert b'content="https://id.example/?a=&quot;&gt;&lt;script&gt;"' in page.index
