"""Plays seeds in a process of its own, so that a seed means the same each time: sets are walked in the order of hashes.

    PYTHONHASHSEED=0 python -m tidings_proof.simulation.run FIRST COUNT
        [--also SEED ...] [--mutation NAME] [--crash] [--losing] [--odd KIND] [--story] [--until-found]

One line of JSON per seed that went wrong, and one about the whole. test_simulation.py starts it.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import logging
import sys
import warnings
from collections.abc import Iterator

from tidings_proof.simulation.mutations import LOSING_MUTATIONS, MUTATIONS, ODD_MUTATIONS
from tidings_proof.simulation.oddities import KINDS
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World

KNOWN = MUTATIONS | LOSING_MUTATIONS | {name: mutation for name, (_, mutation) in ODD_MUTATIONS.items()}


def main() -> None:
    options = _options()
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda unraisable: None  # tasks of dead nodes are collected where they stand
    warnings.simplefilter("ignore", RuntimeWarning)  # the same for coroutines that they had not begun
    gc.disable()
    if options.mutation:
        KNOWN[options.mutation]()
    wrong = played = 0
    story = hashlib.sha256()
    for world in _worlds(options):
        faults = world.play()
        played += 1
        story.update("\n".join(world.story).encode())
        if faults:
            wrong += 1
            print(json.dumps({"seed": world.seed, "dies_at": world.plan.dies_at, "faults": faults[:5]}), flush=True)
        if options.story:
            print("\n".join(world.story), file=sys.stderr)
        world.close()
        if wrong and options.until_found:
            break
        if played % 50 == 0:
            gc.collect()
    print(json.dumps({"played": played, "wrong": wrong, "story": story.hexdigest()}), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--also", type=int, nargs="*", default=[])
    parser.add_argument("--mutation", choices=sorted(KNOWN))
    parser.add_argument("--odd", choices=KINDS)
    for flag in ("--crash", "--losing", "--large", "--story", "--until-found"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def _worlds(options: argparse.Namespace) -> Iterator[World]:
    for number in (*range(options.first, options.first + options.count), *options.also):
        if options.crash:
            yield World(7, Plan.quiet(dies_at=number))
        elif options.odd:
            yield World(number, Plan.odd(number, options.odd))
        elif options.losing:
            yield World(number, Plan.losing(number))
        elif options.large:
            yield World(number, Plan.large(number))
        else:
            yield World(number)


if __name__ == "__main__":
    main()
