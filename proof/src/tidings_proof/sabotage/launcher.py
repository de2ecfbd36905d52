"""The launcher of a tortured node: `python -m tidings_proof.sabotage.launcher [PLANT ...] -- serve …`.

It is the `tidings` command, with the trouble of trouble.py where its file is named, and with mistakes planted on
purpose (plants.py) where the checker itself is put to the test. Production code knows of neither.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

PARENT = "TORTURE_PARENT"  # names the process that must live for this one to
_LOOK_S = 1.0


def main(words: list[str]) -> int:
    split = words.index("--")
    if PARENT in os.environ:
        threading.Thread(target=_end_with, args=(int(os.environ[PARENT]),), name="parent", daemon=True).start()
    from tidings.cli import main as cli
    from tidings_proof.faults import trouble
    from tidings_proof.sabotage import plants

    if trouble.VARIABLE in os.environ:
        trouble.install(trouble.TroubleFile(Path(os.environ[trouble.VARIABLE])))
    for name in words[:split]:
        plants.PLANTS[name].plant()
    return cli.main(words[split + 1 :])


def _end_with(parent: int) -> None:
    """End this process with its parent: a torture that is killed leaves nobody who could end us."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK_S)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
