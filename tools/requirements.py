"""Print what distributions of this repository require of others: `requirements.py pyproject.toml[dev]`.

The locks are made from these lines. Our own distributions require each other, and no package index knows them yet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

OURS = ("tidings-server", "tidings-client", "tidings-proof")


def requirements(word: str) -> list[str]:
    """The requirements of one pyproject.toml, with those of the extras in brackets."""
    file, _, extras = word.rstrip("]").partition("[")
    project = tomllib.loads(Path(file).read_text("utf-8"))["project"]
    optional = project.get("optional-dependencies", {})
    lines = [*project["dependencies"], *(line for extra in filter(None, extras.split(",")) for line in optional[extra])]
    return [line for line in lines if re.split(r"[^\w-]", line)[0] not in OURS]


if __name__ == "__main__":
    sys.stdout.write(
        "".join(f"{line}\n" for line in sorted({one for word in sys.argv[1:] for one in requirements(word)}))
    )
