"""Trainings in a laboratory over links as slow beside the computing as in the field."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measure import median, on_the_cores_of

from unisono.cost_model.exchange import ring_bytes
from unisono.records.view import RunView, read_run
from unisono.units import BIT_UNITS, amount

UNISONO = [sys.executable, "-m", "unisono"]
WARM_UP_STEPS = 3
CARRIED = 0.955  # of a shaped rate, without headers
# What TCP hands down at once, up to 64 KiB, a network card cuts into packets. A laboratory has
# none: where its limit lets less through at once, the processor cuts, for about 5 % of a
# step over such links. Slower ones would carry too much of a second at once.
UNCUT, FASTER_THAN = "70kb", 20e6


def train(
    config: str,
    way: str,
    changes: Sequence[str],
    *,
    nodes: int = 2,
    link: str = "",
    first: int = 0,
) -> RunView:
    """Train in a laboratory, from node `first` on; return the run.

    A `way` is a strategy, and bits if it has any: `compressed:4`.
    """
    strategy, _, bits = way.partition(":")
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        changes = [*changes, f"run={run}", f"sync.strategy={strategy}"]
        changes += [f"sync.bits={bits}"] if bits else []
        fast = bool(link) and amount(link, BIT_UNITS, "link", "") > FASTER_THAN
        burst = [f"--burst={UNCUT}"] if fast else []
        lab = ["lab", "--nodes", str(nodes), f"--link={link}", *burst, "--"]
        command = [*on_the_cores_of(nodes, first=first), *UNISONO, *lab, "train", config]
        command += [word for change in changes for word in ("--set", change)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
        return read_run(run)


def links_for(full: RunView, ratios: Sequence[float]) -> list[str]:
    """Return the links over which a plain exchange takes `ratios` times what computing does.

    `full` is a run of two nodes without a limit.
    """
    computing = median([step.seconds - step.exchange for step in full.steps[WARM_UP_STEPS:]])
    size = ring_bytes(full.starts[0].parameters, 2)
    print(f"computing {computing:.3f} s, {size / 1e6:.1f} MB through each card")
    return [f"{size * 8 / (r * computing * CARRIED) / 1000:.0f}kbit" for r in ratios]
