"""Several joiners at once, here or on the nodes of a laboratory."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

JOINER = [sys.executable, str(Path(__file__).parent / "joiner.py")]


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
        **{name: str(value) for name, value in further.items()},
    }


def start_here(changes):
    """Start a joiner on this machine."""
    return subprocess.Popen(
        JOINER,
        env={**os.environ, **changes},
        stdin=subprocess.PIPE if "GO" in changes else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_together(changes):
    """Start joiners on this machine; none joins before all of them could."""
    joiners = [start_here({**one, "GO": "1"}) for one in changes]
    for joiner in joiners:
        assert joiner.stdout.readline() == "ready\n"
    for joiner in joiners:
        joiner.stdin.write("go\n")
        joiner.stdin.flush()
    return joiners


def start_on(lab, node, changes):
    """Start a joiner on a node of a laboratory."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return lab.start(node, JOINER, variables=changes, **pipes)


def ends_of(processes):
    """Return how each joiner ended."""
    ends = []
    try:
        for process in processes:
            out, said = process.communicate()
            ends.append(Joined(process.returncode, json.loads(out or "{}"), said))
    finally:
        for process in processes:
            process.kill()
    return ends
