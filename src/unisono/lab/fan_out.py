"""One program on every node, heard in one place.

torchrun on every machine of a laboratory.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from unisono.lab.commands import cores_of
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan, address_of, name_of
from unisono.launch.fan_out import FanOut
from unisono.launch.plan import NO_RESTARTS, Command, RendezvousPoint, Restarts, agent_command


class LabFanOut(FanOut):
    """Programs on nodes of a laboratory, from their start to the end of the last."""

    def __init__(
        self, lab: Lab, programs: Sequence[tuple[int, Command]], *, may_lose: bool = False
    ) -> None:
        super().__init__(
            {
                node: lab.start(
                    node,
                    command.argv,
                    variables=command.variables,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                for node, command in programs
            },
            may_lose=may_lose,
        )


def plan_agent(
    plan: LabPlan,
    node: int,
    arguments: Sequence[str],
    *,
    restarts: Restarts = NO_RESTARTS,
    options: Sequence[str] = (),
) -> Command:
    """Return what a node runs so that all train together as `unisono ARGUMENTS`.

    `options` are further ones of torchrun; of two that contradict, the last counts.
    """
    command = agent_command(
        # Its port is free for certain: the network of a machine is its own.
        RendezvousPoint(name_of(0), plan.nodes, "lab"),
        arguments,
        workers=plan.workers_per_node,
        is_first=node == 0,
        restarts=restarts,
        options=(f"--local-addr={address_of(node)}", *options),
    )
    cores = cores_of(node, plan.nodes, sorted(os.sched_getaffinity(0)))
    threads = max(1, len(cores) // plan.workers_per_node)
    return replace(command, variables={"OMP_NUM_THREADS": str(threads)})
