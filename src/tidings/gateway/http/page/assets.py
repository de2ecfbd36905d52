"""The files of the page: its HTML, one script, one style sheet and its icon, and a script for later, named by hashes.

A name with a hash never changes its content, so a browser keeps the file for ever. The HTML names them and is asked for
each time: an upgrade shows at once. The two scripts name each other, so the later one is named by the content of both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from html import escape

import msgspec

from tidings.gateway.http.page.bundle import FIRST, LATER, bundle, join_styles

_STYLE = re.compile(r'<link rel="stylesheet" href="/web/([^"]+)">\n')
_SCRIPT = re.compile(r'<script type="module" src="(/web/[^"]+)"></script>')
_ICON = re.compile(r'(<link rel="icon" [^>]*href=")/web/([^"]+)"')


class Packed(msgspec.Struct, frozen=True):
    index: bytes
    assets: Mapping[str, bytes]  # by name


def packed(files: Mapping[str, bytes], login_url: str | None = None) -> Packed:
    """The page of `web/index.html`. `files` has every file by its path below web/. The page sends people who are not
    signed in to `login_url`."""
    index = files["index.html"].decode()
    sources = {_address(name): content.decode() for name, content in files.items() if name.endswith(".js")}
    assets: dict[str, bytes] = {}

    def named(stem: str, ending: str, content: bytes) -> str:
        name = f"{stem}-{_hash(content)}.{ending}"
        assets[name] = content
        return f"/assets/{name}"

    def scripts(found: re.Match[str]) -> str:
        made = bundle(sources, found[1])
        later = f"later-{_hash((made.first + made.later).encode())}.js"
        first = named("page", "js", made.first.replace(LATER, f"/assets/{later}").encode())
        if made.later:
            assets[later] = made.later.replace(FIRST, first).replace(LATER, f"/assets/{later}").encode()
        waits = f'<meta name="later" content="/assets/{later}">\n' if made.later else ""
        return f'{waits}<script type="module" src="{first}"></script>'

    sheets = join_styles([files[found[1]].decode() for found in _STYLE.finditer(index)])
    style = f'<link rel="stylesheet" href="{named("page", "css", sheets.encode())}">\n'
    index = _STYLE.sub("", _STYLE.sub(style, index, count=1))
    index = _SCRIPT.sub(scripts, index)
    index = _ICON.sub(lambda found: f'{found[1]}{named("icon", "svg", files[found[2]])}"', index)
    if login_url is not None:
        index = index.replace("<title>", f'<meta name="login-url" content="{escape(login_url)}">\n<title>', 1)
    return Packed(index.encode(), assets)


def _address(name: str) -> str:
    return f"/{name}" if name.startswith("sdk/") else f"/web/{name}"


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]
