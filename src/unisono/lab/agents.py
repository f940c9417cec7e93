"""torchrun on every machine of a laboratory."""

import os
import sys
from collections.abc import Sequence

from unisono.lab.commands import cores_of
from unisono.lab.plan import INTERFACE, LabPlan, address_of, name_of
from unisono.launch.plan import Command

PORT = 29500  # free for certain: the network of a machine is its own


def plan_agent(
    plan: LabPlan, node: int, arguments: Sequence[str], *, options: Sequence[str] = ()
) -> Command:
    """Return what a node runs so that all train together as `unisono ARGUMENTS`.

    `options` are further ones of torchrun; of two that contradict, the last counts.
    """
    argv = (
        *(sys.executable, "-m", "unisono.cli.agent"),
        f"--nnodes={plan.nodes}",
        f"--nproc-per-node={plan.workers_per_node}",
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={name_of(0)}:{PORT}", "--rdzv-id=lab"),
        # Said, not guessed from what the host name resolves to.
        f"--rdzv-conf=is_host={int(node == 0)}",
        f"--local-addr={address_of(node)}",
        *options,
        *("-m", "unisono", *arguments),
    )
    cores = cores_of(node, plan.nodes, sorted(os.sched_getaffinity(0)))
    variables = {
        # A restarted worker must not find the addresses of its dead peers in the store.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "NCCL_SOCKET_IFNAME": INTERFACE,
        "OMP_NUM_THREADS": str(max(1, len(cores) // plan.workers_per_node)),
    }
    return Command(argv, variables)
