"""`python -m bench all` runs every benchmark, `python -m bench send --seconds 5` one of them."""

from __future__ import annotations

import sys
from importlib import import_module

MODULES = {"connections": "idle"}  # where the file has another name than the result
NAMES = ("send", "history", "inbox", "unread", "limiter", "fanout", "connections", "resume")
USAGE = f"usage: python -m bench all|report|{'|'.join(NAMES)} [options]"


def main(words: list[str]) -> None:
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name not in (*NAMES, "all", "report"):
        raise SystemExit(USAGE)
    for one in NAMES if name == "all" else (name,):
        import_module(f"bench.{MODULES.get(one, one)}").main(rest)


if __name__ == "__main__":
    main(sys.argv[1:])
