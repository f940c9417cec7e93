"""torchrun on one of several machines, with nothing left to guess."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.launch.plan import NO_RESTARTS, Command, Restarts

PORT = 29500


@dataclass(frozen=True)
class Meeting:
    """Where the agents of `nodes` machines find each other; `id` tells runs apart."""

    address: str
    nodes: int
    id: str
    port: int = PORT

    @property
    def endpoint(self) -> str:
        """Return address and port in one word."""
        plain = ":" not in self.address
        return f"{self.address if plain else f'[{self.address}]'}:{self.port}"


def agent_command(
    meeting: Meeting,
    arguments: Sequence[str],
    *,
    workers: int,
    is_first: bool,
    python: str = sys.executable,
    restarts: Restarts = NO_RESTARTS,
    options: Sequence[str] = (),
) -> Command:
    """Return what a machine runs so that all train together as `unisono ARGUMENTS`.

    `options` are further ones of torchrun; of two that contradict, the last counts.
    """
    argv = (
        *(python, "-m", "unisono.cli.agent", *restarts.supervision),
        f"--nnodes={restarts.nodes(meeting.nodes)}",
        f"--nproc-per-node={workers}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={meeting.endpoint}",
        f"--rdzv-id={meeting.id}",
        # Said, not guessed from what the host name resolves to.
        f"--rdzv-conf=is_host={int(is_first)}",
        *restarts.options,
        *options,
        *("-m", "unisono", *arguments),
    )
    return Command(argv)
