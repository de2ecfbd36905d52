"""`python -m tidings` is the `tidings` command."""

from __future__ import annotations

import sys

from tidings.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
