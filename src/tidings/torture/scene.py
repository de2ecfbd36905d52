"""Where faults happen: the world and the people in it. What every fault of faults_*.py is handed."""

from __future__ import annotations

from typing import NamedTuple

from tidings.torture.processes import NodeProcess
from tidings.torture.schedule import Step
from tidings.torture.workload import Workload
from tidings.torture.world import World


class Scene(NamedTuple):
    """What a fault may touch."""

    world: World
    people: Workload

    def node(self, step: Step) -> NodeProcess:
        nodes = self.world.nodes
        return nodes[int(step.target * len(nodes))]
