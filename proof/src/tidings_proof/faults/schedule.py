"""Schedule: says when each fault begins and ends.

A plan is made from a seed alone, so that the same seed plays the same plan again. Faults come a few seconds apart, each
for its time; now and then two at once. The plan ends before the run does, so that everything can heal and be checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.clock import Dice

WARM_S = 3.0  # before the first fault: what is normal must be known
GAP_S = (0.8, 4.0)  # between the beginnings of two faults; in a short run they come closer
PAIRED = 0.25  # how often a second one comes at the same time
SHORT_S = 120.0  # below it a run is short: faults last half as long


class Step(msgspec.Struct, frozen=True):
    """One fault. `target` and `degree` are read by the fault as it likes: which node, how much."""

    at_s: float
    fault: str
    lasts_s: float
    target: float  # 0 to 1
    degree: float  # 0 to 1


def plan(seed: int, seconds: float, faults: Sequence[str]) -> list[Step]:
    """Every fault is drawn before one is drawn again."""
    dice = Dice(f"schedule {seed}")
    steps: list[Step] = []
    at_s = WARM_S
    bag: list[str] = []
    scale = 0.5 if seconds < SHORT_S else 1.0
    while faults and at_s < seconds - 1.0:
        for _ in range(2 if dice.random() < PAIRED else 1):
            bag = bag or dice.sample(sorted(faults), len(faults))
            lasts_s = scale * dice.choice((1.0, 2.0, 4.0, 8.0))
            step = Step(round(at_s, 3), bag.pop(), lasts_s, dice.random(), dice.random())
            steps.append(step)
        at_s += scale * dice.uniform(*GAP_S)
    return steps
