"""How long does it take until a lost rank is named on every surviving node?

    python benchmarks/lost.py [--trials 20] [--kinds died,stopped,gone]

Each trial is a tiny training of its own on two machines of a laboratory. After the first
checkpoint and a random moment, the worker of node1 is killed (`died`) or stopped (`stopped`),
or node1 loses its power or, in every second trial, its link (`gone`). The time that counts is
the latest: when the last surviving node has said on its terminal who is lost and how, and
every event has been written. Seconds from the command to the first update are taken along.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from measure import machine, median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from faults.stage import Stage, kill, stop, write_config
from support.tiny import tiny_corpus
from unisono.records.view import read_run

HOW = {
    "died": "process died",
    "stopped": "process stopped",
    "gone": "machine or link gone",
}
LIMIT_SECONDS = 10.0
FIRST_STEP_GOAL_SECONDS = 15.0


def main() -> None:
    """Try every kind of loss as often as asked for; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--kinds", default=",".join(HOW))
    options = parser.parse_args()
    print(machine())
    kinds = options.kinds.split(",")
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    first_steps: list[float] = []
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        corpus = tiny_corpus(Path(directory))
        for turn in range(options.trials):
            for kind in kinds:
                home = Path(directory) / f"{kind}-{turn}"
                home.mkdir()
                seconds, first = trial(corpus, home, kind, turn, rng.random())
                found[kind].append(seconds)
                first_steps.append(first)
                print(f"{kind:8} {seconds:6.2f} s   first update {first:.1f} s", flush=True)
    print_table(found, first_steps)


def trial(corpus: Path, home: Path, kind: str, turn: int, delay: float) -> tuple[float, float]:
    """Lose node1 in one way; return the seconds until all know, and those to the start."""
    config = write_config(corpus, home)
    began = time.time()
    with Stage(config, home / "run") as stage:
        stage.wait_for("saved")
        time.sleep(delay)
        lost_at = time.time()
        survivors = disturb(stage, kind, cut=turn % 2 == 1)
        said = []
        for node in survivors:
            # A node that is cut off sees it the other way round.
            rank = 0 if node == 1 and kind == "gone" else 1
            line, moment = stage.wait_for("lost:", node)
            if (
                not line.startswith(f"lost: rank {rank} on node{rank} ")
                or HOW[kind] not in line
            ):
                raise SystemExit(f"node{node} says: {line}")
            said += [moment, stage.loss(node).time]
    first = min(step.time for step in read_run(home / "run").steps)
    return max(said) - lost_at, first - began


def disturb(stage: Stage, kind: str, *, cut: bool) -> list[int]:
    """Do it; return the nodes that are left to tell."""
    if kind == "died":
        kill(stage.worker(1))
    elif kind == "stopped":
        stop(stage.worker(1))
    elif cut:
        stage.lab.link_down(1)
    else:
        stage.lab.power_off(1)
        return [0]
    return [0, 1]


def print_table(found: dict[str, list[float]], first_steps: list[float]) -> None:
    """Print what was found, as Markdown."""
    print("\n| kind | trials | median (s) | longest (s) | within 10 s |")
    print("|---|---:|---:|---:|---:|")
    for kind, seconds in found.items():
        within = sum(value <= LIMIT_SECONDS for value in seconds)
        numbers = f"{median(seconds):.2f} | {max(seconds):.2f} | {within} of {len(seconds)}"
        print(f"| {HOW[kind]} | {len(seconds)} | {numbers} |")
    in_time = sum(value <= FIRST_STEP_GOAL_SECONDS for value in first_steps)
    print(
        "\nfrom the command to the first update on two nodes: median "
        f"{median(first_steps):.1f} s, longest {max(first_steps):.1f} s, "
        f"{in_time} of {len(first_steps)} within 15 s"
    )


if __name__ == "__main__":
    main()
