"""All processes on this machine, under torchrun (see `comm.agent`)."""

import os
import sys
from collections.abc import Sequence

from unisono.launch.plan import NO_RESTARTS, Command, Restarts


def plan_local(
    arguments: Sequence[str], workers: int, restarts: Restarts = NO_RESTARTS
) -> Command:
    """Return the command that starts `workers` processes of `unisono ARGUMENTS` here."""
    argv = (
        *(sys.executable, "-m", "unisono.cli.agent", *restarts.supervision),
        *("--standalone", f"--nproc-per-node={workers}", *restarts.options),
        *("-m", "unisono", *arguments),
    )
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    return Command(argv, {"OMP_NUM_THREADS": str(threads)})
