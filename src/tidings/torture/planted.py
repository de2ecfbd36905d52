"""The launcher of a tortured node: `python -m tidings.torture.planted [PLANT ...] -- serve …`.

It is the `tidings` command, with the trouble of trouble.py where its file is named, and with mistakes planted on
purpose (plants.py) where the checker itself is put to the test. Production code knows of neither.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(words: list[str]) -> int:
    split = words.index("--")
    from tidings import cli
    from tidings.torture import plants, trouble

    if trouble.VARIABLE in os.environ:
        trouble.install(trouble.TroubleFile(Path(os.environ[trouble.VARIABLE])))
    for name in words[:split]:
        plants.PLANTS[name].plant()
    return cli.main(words[split + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
