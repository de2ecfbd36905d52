"""`python -m bench all` runs every benchmark, `python -m bench send --seconds 5` one of them."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.everything import NAMES, run_all
from tidings.benchmarks.plan import GeneratorFailed

USAGE = f"usage: python -m bench all|report|{'|'.join(NAMES)} [options]"


def main(words: list[str]) -> None:
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name not in (*NAMES, "all", "report"):
        raise SystemExit(USAGE)
    if name == "all":
        raise SystemExit(run_all(rest))
    try:
        import_module(f"bench.{name}").main(rest)
    except GeneratorFailed as error:
        raise SystemExit(f"bench: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
