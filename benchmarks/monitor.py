"""What does it cost to know what the machine did? The step with and without the sampler.

    python benchmarks/monitor.py [--turns 6] [--steps 150] [--workers 2] [--every "1 s"]

Runs with the sampler on and off take turns, in changing order, each a training of its own on
the same corpus; what counts is the median step of each run without its first tenth, and the
median over the runs. The samplers' own CPU seconds are told as well: they bound what it can
cost where the clock is too coarse to see it.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measure import machine, median, run

from unisono.diagnose.case import open_case
from unisono.records.view import read_run

GOAL = 0.01
UNISONO = (sys.executable, "-m", "unisono")


@dataclass(frozen=True)
class Trial:
    """One run: its median step, what its samplers took, and how well its ledger closes."""

    step: float
    sampler_share: float
    closed: float


def main() -> None:
    """Let runs with and without the sampler take turns; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("configs/demo.toml"))
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", default="1 s")
    options = parser.parse_args()
    print(machine())
    found: dict[bool, list[Trial]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(options.turns):
            # Whatever drifts on this machine, drifts for both.
            for on in (True, False) if turn % 2 else (False, True):
                home = Path(directory) / f"{turn}-{'on' if on else 'off'}"
                trial = measure(options, home, on=on)
                found[on].append(trial)
                print(
                    f"{'on ' if on else 'off'} {1000 * trial.step:8.2f} ms a step", flush=True
                )
    print_table(found)


def measure(options: argparse.Namespace, home: Path, *, on: bool) -> Trial:
    """Train once; return what was found."""
    settings = {
        "run": home,
        "train.max_steps": options.steps,
        "validation.every_steps": 1_000_000,
        "validation.bleu": "false",
        "validation.best": "loss",
        "checkpoint.every_steps": 1_000_000,
        "decoding.beam": 1,
        "monitor.on": str(on).lower(),
        "monitor.every": options.every,
    }
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = [*UNISONO, "launch", options.config, "--workers", str(options.workers), *pairs]
    run(command)
    view = read_run(home)
    ledger = open_case(view, now=view.seen[-1]).ledger
    rows = ledger.rows[len(ledger.rows) // 10 :]
    samples = [sample for log in view.machines.values() for sample in log.samples]
    share = 0.0
    if len(samples) > 1:
        # Its start is not counted: it happens once.
        spent = samples[-1].sampler_cpu - samples[0].sampler_cpu
        share = spent / (samples[-1].time - samples[0].time)
    return Trial(median([row.seconds for row in rows]), share, ledger.closed_between)


def print_table(found: dict[bool, list[Trial]]) -> None:
    """Print what was found, as Markdown."""
    steps = {on: median([trial.step for trial in trials]) for on, trials in found.items()}
    overhead = steps[True] / steps[False] - 1
    pairs = zip(found[True], found[False], strict=True)
    each = sorted(a.step / b.step - 1 for a, b in pairs)
    print("\n| sampler | runs | median step (ms) |\n|---|---:|---:|")
    for on in (False, True):
        print(f"| {'on' if on else 'off'} | {len(found[on])} | {1000 * steps[on]:.2f} |")
    shares = [trial.sampler_share for trial in found[True]]
    closed = [trial.closed for trials in found.values() for trial in trials]
    print(
        f"\nthe step with it against that without: {100 * overhead:+.2f} % (goal: {GOAL:.0%})"
    )
    print(f"pair by pair from {100 * each[0]:+.2f} % to {100 * each[-1]:+.2f} %")
    print(f"the sampler takes {100 * median(shares):.2f} % of one core")
    print(f"the ledger has a name for {100 * median(closed):.1f} % of the time between updates")


if __name__ == "__main__":
    main()
