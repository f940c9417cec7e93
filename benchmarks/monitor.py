"""What does it cost to know what a run does? The step with all of it, and without.

    python benchmarks/monitor.py [--turns 6] [--steps 150] [--workers 2] [--every "1 s"]

Runs of three kinds take turns, in changing order, each a training of its own on the same
corpus: *nothing* has no sampler, no timers, no events of updates and nobody who looks for
findings (`observed/worker.py` takes them out); *records* has all but the sampler; *everything*
is what users have. What counts is the median update of each run without its first tenth, by the
clock of the worker, and the median over the runs. The samplers' own CPU seconds are told as
well: they bound what it can cost where the clock is too coarse to see it.
"""

import argparse
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measure import machine, median

from unisono.diagnose.case import open_case
from unisono.launch.plan import plan_local
from unisono.records.view import read_run

GOAL = 0.01
CLOSED_GOAL = 0.97
WORKER = Path(__file__).parent / "observed" / "worker.py"
KINDS = ("nothing", "records", "everything")


@dataclass(frozen=True)
class Trial:
    """One run: its median step; what its samplers took, and how well its ledger closes.

    Those two are None where there is no sampler, or no ledger.
    """

    step: float
    sampler_share: float | None = None
    closed: float | None = None


def main() -> None:
    """Let runs of all kinds take turns; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("configs/demo.toml"))
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", default="1 s")
    options = parser.parse_args()
    print(machine())
    found: dict[str, list[Trial]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(options.turns):
            # Whatever drifts on this machine, drifts for all.
            for kind in KINDS if turn % 2 else reversed(KINDS):
                trial = measure(options, Path(directory) / f"{turn}-{kind}", kind)
                found[kind].append(trial)
                print(f"{kind:10} {1000 * trial.step:8.2f} ms a step", flush=True)
    print_table(found)


def measure(options: argparse.Namespace, home: Path, kind: str) -> Trial:
    """Train once; return what was found."""
    settings = {
        "run": home,
        "train.max_steps": options.steps,
        "validation.every_steps": 1_000_000,
        "validation.bleu": "false",
        "validation.best": "loss",
        "checkpoint.every_steps": 1_000_000,
        "decoding.beam": 1,
        "monitor.on": str(kind == "everything").lower(),
        "monitor.every": options.every,
    }
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    times = home.with_suffix(".times")
    command = plan_local(["train", str(options.config), *pairs], options.workers)
    argv = list(command.argv)
    place = len(argv) - 1 - argv[::-1].index("unisono")
    argv[place - 1 : place + 1] = [str(WORKER)]
    variables = {**command.variables, "TIMES": str(times)}
    if kind == "nothing":
        variables["UNOBSERVED"] = "yes"
    done = subprocess.run(argv, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    began = [float(line) for line in times.read_text().split()]
    steps = [b - a for a, b in zip(began, began[1:], strict=False)]
    step = median(steps[len(steps) // 10 :])
    return Trial(step) if kind == "nothing" else _with_records(home, step)


def _with_records(home: Path, step: float) -> Trial:
    view = read_run(home)
    ledger = open_case(view, now=view.seen[-1]).ledger
    samples = [sample for log in view.machines.values() for sample in log.samples]
    share = None
    if len(samples) > 1:
        # Its start is not counted: it happens once.
        spent = samples[-1].sampler_cpu - samples[0].sampler_cpu
        share = spent / (samples[-1].time - samples[0].time)
    return Trial(step, share, ledger.closed_between)


def print_table(found: dict[str, list[Trial]]) -> None:
    """Print what was found, as Markdown."""
    steps = {kind: median([trial.step for trial in trials]) for kind, trials in found.items()}
    print("\n| observed | runs | median step (ms) | against nothing | pair by pair |")
    print("|---|---:|---:|---:|---|")
    for kind in KINDS:
        pairs = zip(found[kind], found["nothing"], strict=True)
        each = sorted(one.step / bare.step - 1 for one, bare in pairs)
        ratio = f"{100 * (steps[kind] / steps['nothing'] - 1):+.2f} %"
        spread = f"{100 * each[0]:+.2f} % to {100 * each[-1]:+.2f} %"
        told = ("–", "–") if kind == "nothing" else (ratio, spread)
        row = (kind, str(len(found[kind])), f"{1000 * steps[kind]:.2f}", *told)
        print(f"| {' | '.join(row)} |")
    trials = [trial for each in found.values() for trial in each]
    shares = [trial.sampler_share for trial in trials if trial.sampler_share is not None]
    closed = [trial.closed for trial in trials if trial.closed is not None]
    overhead = steps["everything"] / steps["nothing"] - 1
    print(f"\nall of it costs {100 * overhead:+.2f} % of the step (goal: at most {GOAL:.0%})")
    if shares:
        print(f"the sampler takes {100 * median(shares):.2f} % of one core")
    print(
        f"from the first to the last update, the ledger has a name for "
        f"{100 * median(closed):.1f} % of the time (goal: {CLOSED_GOAL:.0%})"
    )


if __name__ == "__main__":
    main()
