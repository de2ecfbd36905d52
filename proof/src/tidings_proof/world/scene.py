"""Scene: the world and the people in it, as every fault gets them."""

from __future__ import annotations

from typing import NamedTuple

from tidings_proof.faults.schedule import Step
from tidings_proof.people.workload import Workload
from tidings_proof.world.processes import NodeProcess
from tidings_proof.world.world import World


class Scene(NamedTuple):
    """Scene: everything that a fault may touch."""

    world: World
    people: Workload

    def node(self, step: Step) -> NodeProcess:
        nodes = self.world.nodes
        return nodes[int(step.target * len(nodes))]
