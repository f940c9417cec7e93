"""How many machines were asked for, and whether they are all in. No torch here.

Torchrun may leave out a machine whose clock is 20 s behind, train on the others, and call it
a success. Its workers are told how many machines there are, not how many there should be.
"""

import os
from collections.abc import Mapping, Sequence

import psutil

from unisono.errors import RunError

NODES = "UNISONO_NODES"  # set by our own agent


def check_nodes(variables: Mapping[str, str]) -> None:
    """Raise an error if torchrun left machines out although it was given their number."""
    if "TORCHELASTIC_RUN_ID" not in variables:
        return
    wanted = variables.get(NODES) or nodes_asked(_parent_command(), variables)
    there = variables.get("GROUP_WORLD_SIZE", "")
    if wanted and wanted.isdecimal() and there.isdecimal() and int(wanted) != int(there):
        raise RunError(
            f"torchrun was asked for {wanted} machines, but goes on with {there}",
            where=f"--nnodes={wanted}",
            fix="compare the clocks of the machines: torchrun takes one whose clock is more "
            "than 15 s off for dead; to allow for fewer machines, say --nnodes=1:"
            f"{wanted}",
        )


def nodes_asked(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the number of machines in a command of torchrun, or "" if it is not told."""
    nodes = variables.get("PET_NNODES", "")
    names = "--nnodes", "--nnode"
    for word, following in zip(command, [*command[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            nodes = value if equals else following
    least, _, most = nodes.partition(":")
    return least if not most or least == most else ""


def _parent_command() -> list[str]:
    try:
        return list(psutil.Process(os.getppid()).cmdline())
    except psutil.Error:
        return []
