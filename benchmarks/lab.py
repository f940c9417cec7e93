"""What does a laboratory cost, and are its links what they claim to be?

    python benchmarks/lab.py links
    python benchmarks/lab.py training [--config configs/demo.toml] [--rounds 3] [--steps 40]

`links`: megabits a second of a plain TCP connection in each direction, for several rates.
`training`: two nodes without a limit beside two local workers, in turn: seconds a step, and
seconds from the command to the first step. The corpus of the config has to be prepared.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import machine, median

from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.records.layout import RunDirectory
from unisono.records.view import read_run

TRANSFER = str(Path(__file__).parents[1] / "tests" / "lab" / "transfer.py")
UNISONO = [sys.executable, "-m", "unisono"]
RATES = {"256kbit": 0.2, "1mbit": 0.5, "10mbit": 3, "100mbit": 30, "1gbit": 200, "": 500}
WARM_UP_STEPS = 5
NEVER = "1000000"
STOPPED_AND_SAVED = 75
TOKENS = "4096"


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["links", "training"])
    parser.add_argument("--config", default="configs/demo.toml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    print(machine())
    if options.what == "links":
        measure_links()
    else:
        measure_training(options.config, options.rounds, options.steps)


def measure_links() -> None:
    """Print a table of rates asked for and found."""
    print("asked for  node0 → node1  node1 → node0  (Mbit/s)  made in  removed in (s)")
    for rate, megabytes in RATES.items():
        began = time.perf_counter()
        with Lab(LabPlan(link=rate)) as lab:
            made = time.perf_counter() - began
            there = mbit_per_s(lab, 0, 1, megabytes)
            back = mbit_per_s(lab, 1, 0, megabytes)
            began = time.perf_counter()
        removed = time.perf_counter() - began
        rates = f"{rate or 'no limit':9}  {there:13.2f}  {back:13.2f}"
        print(f"{rates}            {made:7.2f}  {removed:10.2f}", flush=True)


def mbit_per_s(lab: Lab, sender: int, receiver: int, megabytes: float) -> float:
    """Send that much over one connection; return the rate at which it arrived."""
    receive = [sys.executable, TRANSFER, "receive", "5000"]
    listening = lab.start(receiver, receive, stdout=subprocess.PIPE)
    if listening.stdout is None or listening.stdout.readline() != "listening\n":
        raise SystemExit("nobody listens")
    size = str(int(megabytes * 1e6))
    lab.run(sender, [sys.executable, TRANSFER, "send", lab.name(receiver), "5000", size])
    return float(listening.communicate()[0])


def measure_training(config: str, rounds: int, steps: int) -> None:
    """Print seconds a step and seconds to the first step, of both, in turns."""
    ways = {
        "local": [*UNISONO, "launch", config, "--workers", "2"],
        "lab": [*UNISONO, "lab", "--nodes", "2", "--", "train", config],
    }
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(rounds):
            for way, command in ways.items():
                run = Path(directory) / f"{way}-{turn}"
                found[way].append(train(command, run, steps))
                step, first = found[way][-1]
                print(f"{way:5}  {step:.4f} s a step, first after {first:.1f} s", flush=True)
    pairs = zip(found["local"], found["lab"], strict=True)
    ratio = median([local / lab for (local, _), (lab, _) in pairs])
    print(f"throughput of two nodes, as a share of two local workers: {ratio:.3f}")
    first = median([seconds for _, seconds in found["lab"]])
    print(f"from the command to the first step on two nodes: {first:.1f} s")


def train(command: list[str], run: Path, steps: int) -> tuple[float, float]:
    """Train a little; return the median seconds a step and the seconds before the first."""
    settings = {
        "run": str(run),
        "batching.tokens_per_update": TOKENS,
        "validation.every_steps": NEVER,
        "checkpoint.every_steps": NEVER,
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    began = time.time()
    with subprocess.Popen([*command, *sets], stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and steps_of(run) < WARM_UP_STEPS + steps:
            time.sleep(0.5)
        process.terminate()
        said = process.communicate()[1]
    if process.returncode != STOPPED_AND_SAVED:
        raise SystemExit(f"{said}\n{command} ended with {process.returncode}")
    taken = read_run(run).steps
    return median([step.seconds for step in taken[WARM_UP_STEPS:]]), taken[0].time - began


def steps_of(run: Path) -> int:
    """Return how many updates a run has made so far."""
    events = RunDirectory(run).events(0)
    return events.read_text().count('"kind":"step"') if events.is_file() else 0


if __name__ == "__main__":
    main()
