"""A scene: which node a step is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tests.proof.faults.test_faults import world
from tidings_proof.faults.schedule import Step
from tidings_proof.world.keyspaces import AnyKeyspace
from tidings_proof.world.processes import NodeProcess
from tidings_proof.world.scene import Scene


def test_a_step_always_means_the_same_node(tmp_path: Path) -> None:
    made = world(tmp_path, AnyKeyspace(""))
    made.nodes = [NodeProcess(f"n{n}", tmp_path, 0, {}) for n in range(3)]
    scene = Scene(made, cast(Any, None))
    targets = [scene.node(Step(0, "node-kill", 1, target, 0)).name for target in (0.0, 0.34, 0.99)]
    assert targets == ["n0", "n1", "n2"]
