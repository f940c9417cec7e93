"""Several joiners at once, here or on the nodes of a laboratory."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

JOINER = [sys.executable, str(Path(__file__).parent / "joiner.py")]
LIMIT_SECONDS = 100


@dataclass
class Joined:
    """How a joiner ended."""

    exit_code: int
    found: dict
    said: str


def variables(rank, size, local_rank=None, local_size=None, **further):
    """Return what torchrun would set, for processes on one machine if nothing else is said."""
    local_rank = rank if local_rank is None else local_rank
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size or size),
        "START": "30",
        **{name: str(value) for name, value in further.items()},
    }


def start_here(changes):
    """Start a joiner on this machine."""
    return subprocess.Popen(
        JOINER,
        env={**os.environ, **changes},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_on(lab, node, changes):
    """Start a joiner on a node of a laboratory."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return lab.start(node, JOINER, variables=changes, **pipes)


def ends_of(processes):
    """Return how each joiner ended."""
    ends = []
    try:
        for process in processes:
            out, said = process.communicate(timeout=LIMIT_SECONDS)
            ends.append(Joined(process.returncode, json.loads(out or "{}"), said))
    finally:
        for process in processes:
            process.kill()
    return ends
