"""One program on every node, heard in one place."""

import subprocess
from collections.abc import Sequence

from unisono.lab.lab import Lab
from unisono.launch import everywhere
from unisono.launch.plan import Command


class Everywhere(everywhere.Everywhere):
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
