"""Code blocks of the pages, and how a reader runs them: files are written down, and shell blocks are pasted in order.

A block of a language belongs to its page. A block whose first line is a comment with a file name (`# hello.py`,
`// hello.mjs`) is that file. A text block is what the block before it prints; `…` in it stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import PYTHONPATH, ROOT

USE_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "use").glob("*.md"))]
URL_ON_PAGES = "http://127.0.0.1:8000"
SHELL_S = 120
_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"(?:#|//|<!--) (?P<name>[\w./-]+\.(?:py|mjs|jsx|html|sh))\b")
_BETWEEN = "=== the next block ==="


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that the block shows."""
        found = _FILE.match(self.text)
        return found["name"] if found else None


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page in their order, of all languages unless some are named."""
    found = [
        Block(page.name, match[2], re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE))
        for match in _FENCED.finditer(page.read_text("utf-8"))
    ]
    return [block for block in found if not languages or block.language in languages]


def clone(folder: Path, programs: Path) -> Path:
    """A folder in which the pages find what a clone has. `programs` holds python and tidings."""
    for name in ("clients", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(programs)
    return folder


def paste(page: Path, folder: Path, url: str, env: Mapping[str, str]) -> None:
    """Write the files of a page into the folder, run its shell blocks, and compare what they print."""
    blocks = [block for block in blocks_of(page) if block.language in ("python", "js", "html", "sh", "text")]
    script = ["set -euo pipefail"]
    printed: list[str] = []
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        text = block.text.replace(URL_ON_PAGES, url)
        if block.file is not None:
            (folder / block.file).write_text(text)
        elif block.language == "sh":
            script += [text, f"echo '{_BETWEEN}'"]
            printed.append(after.text if after is not None and after.language == "text" else "")
    said = _bash("\n".join(script), folder, env)
    for expected, heard in zip(printed, said.split(f"{_BETWEEN}\n")[:-1], strict=True):
        assert re.fullmatch(_pattern(expected), heard) or not expected, f"{page.name} prints {heard!r}"


def _pattern(expected: str) -> str:
    return re.escape(expected).replace("…", "[^\n]*")


def _bash(script: str, folder: Path, env: Mapping[str, str]) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{kept['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script],
        env={**kept, "PATH": path, "PYTHONPATH": PYTHONPATH, **env},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SHELL_S,
        check=False,
    )
    assert ran.returncode == 0, f"{script}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def lines_of(pages: list[Path]) -> Iterator[tuple[str, str]]:
    """The lines of blocks without a language: frames, routes and settings, each with its page."""
    for page in pages:
        for block in blocks_of(page, ""):
            yield from ((page.name, line) for line in block.text.splitlines())
