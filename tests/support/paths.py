"""Where the repository is, and how a process of its own finds the packages in it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = os.pathsep.join(str(ROOT / folder) for folder in ("src", "proof/src", "clients/python/src", "."))
