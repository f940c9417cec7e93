"""Does `unisono check` forecast what a step takes?

    python benchmarks/check.py [--config configs/demo.toml] [--only 3] [--seconds 20]

Each of 24 cases is a laboratory: a link, a model, a batch, workers on each node, a way to
exchange. It is checked for some seconds and then trained on for about ten, and then one node
alone; all runs are real, one after the other. Printed are the error of the step and of the
link, whether the interval held the truth, and whether the stop sign was right where the
answer was clear by more than the interval. The corpus of the config has to be prepared.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from measure import machine, on_the_cores_of

from unisono.records.view import read_run
from unisono.units import BIT_UNITS, amount

UNISONO = [sys.executable, "-m", "unisono"]
LINKS = ("", "1gbit", "500mbit", "200mbit", "100mbit", "50mbit")
# One for each link, in four rounds; more than a third are ddp. After the colons are bits, and
# the local steps of diloco.
WAYS = (
    ("ddp", "compressed:8", "ddp", "diloco:4:8", "ddp", "compressed:4"),
    ("compressed:16", "ddp", "powersgd", "ddp", "all_reduce", "diloco:4:8"),
    ("ddp", "all_reduce", "compressed:4", "compressed:16", "ddp", "powersgd"),
    ("powersgd", "ddp", "diloco:4:8", "compressed:8", "compressed:16", "ddp"),
)
TOO_MUCH = 0.30  # of the time spent waiting: a reason for the stop sign
WARM_UP_STEPS = 3
FEWEST_STEPS, MOST_STEPS, TRAIN_SECONDS = 8, 80, 10.0
ODD = 0.1  # of the steps, at either end, that do not count
CARRIED = 0.955  # of a shaped rate: what is left without headers


@dataclass(frozen=True)
class Shape:
    """What is trained, and by how many."""

    name: str
    width: int
    tokens: int
    micro: int
    workers: int = 1


SHAPES = (
    Shape("width 128, 2,048 tokens", 128, 2048, 1024),
    Shape("width 256, 2,048 tokens", 256, 2048, 1024),
    Shape("width 256, 8,192 tokens in 8 parts", 256, 8192, 1024),
    Shape("width 128, 4,096 tokens, 2 workers a node", 128, 4096, 1024, 2),
)


@dataclass(frozen=True)
class Case:
    """What was forecast, and what was measured."""

    forecast: float
    low: float
    high: float
    truth: float
    waited: float
    link_error: float | None
    stop: str
    alone: float
    seconds: float

    @property
    def error(self) -> float:
        """Return how far off it was."""
        return self.forecast / self.truth - 1

    @property
    def held(self) -> bool:
        """Return whether the truth was within the interval."""
        return self.low <= self.truth <= self.high

    @property
    def should_stop(self) -> bool | None:
        """Return whether it was slower or waited too much; None if it is too close to tell."""
        margin = (self.high - self.low) / (2 * self.forecast)
        slower = self.truth - self.alone
        too_long = self.waited - TOO_MUCH
        if slower > margin * self.truth or too_long > margin:
            return True
        return None if slower > -margin * self.truth or too_long > -margin else False


def main() -> None:
    """Go through the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="configs/demo.toml")
    parser.add_argument("--only", type=int, default=0, help="how many cases")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    print(machine())
    names = ("link", "case", "forecast", "90 % within", "truth", "error", "link", "one node")
    print(f"| {' | '.join(names)} | waited | check took |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    cases = []
    for link, shape, way in all_cases()[: options.only or None]:
        case = one_case(options.config, link, shape, way, options.seconds)
        cases.append(case)
        print(row(link, shape, way, case), flush=True)
    print_summary(cases)


def all_cases() -> list[tuple[str, Shape, str]]:
    """Return all 24. Other shapes with other links first: a few cases are a fair sample."""
    return [
        (link, shape, way)
        for number, ways in enumerate(WAYS)
        for (link, shape), way in zip(diagonal(number), ways, strict=True)
    ]


def diagonal(number: int) -> list[tuple[str, Shape]]:
    """Return each link once, with one of the shapes."""
    return [(link, SHAPES[(place + number) % 4]) for place, link in enumerate(LINKS)]


def one_case(config: str, link: str, shape: Shape, way: str, seconds: float) -> Case:
    """Check, train on two nodes, train on one; return all three."""
    strategy, bits, local_steps = (*way.split(":"), "8", "8")[:3]
    changes = [
        f"sync.strategy={strategy}",
        f"sync.bits={bits}",
        f"sync.local_steps={local_steps}",
        "sync.warmup_steps=0",
        "sync.closing_steps=0",
        f"model.width={shape.width}",
        f"model.inner={4 * shape.width}",
        f"batching.tokens_per_update={shape.tokens}",
        f"batching.tokens_per_micro_batch={shape.micro}",
        "validation.every_steps=100000",
        "checkpoint.every_steps=100000",
        "validation.bleu=false",
        "validation.best=loss",
        "train.patience=0",
    ]
    found = json.loads(
        in_lab(link, shape, 2, ["check", config, "--json", f"--seconds={seconds}"], changes)
    )
    told = next(one for one in found["ways"] if one["exchange"] == found["configured"])
    low, high = told["step_seconds_90"]
    wanted = amount(link, BIT_UNITS, "link", "") / 8 * CARRIED if link else 0.0
    rates = [pair["rate"] for pair in found["measured"]["pairs"]]
    truth, waited = trained(config, link, shape, 2, changes, told["step_seconds"])
    guess = found["alone"]["step_seconds"]
    return Case(
        forecast=told["step_seconds"],
        low=low,
        high=high,
        truth=truth,
        waited=waited,
        link_error=median(rates) / wanted - 1 if wanted else None,
        stop=found["stop"],
        seconds=found["measured"]["seconds"],
        alone=trained(config, "", shape, 1, [*changes, "sync.strategy=ddp"], guess)[0],
    )


def trained(
    config: str, link: str, shape: Shape, nodes: int, changes: list[str], guess: float
) -> tuple[float, float]:
    """Train for a while; return the seconds a step, and the share of them spent waiting."""
    steps = WARM_UP_STEPS + round(
        min(MOST_STEPS, max(FEWEST_STEPS, TRAIN_SECONDS / max(guess, 1e-3)))
    )
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        further = [*changes, f"run={run}", f"train.max_steps={steps}"]
        in_lab(link, shape, nodes, ["train", config], further)
        view = read_run(run)
        steps = sorted(view.steps[WARM_UP_STEPS:], key=lambda step: step.seconds)
        # What a run takes is the mean; a machine that others use as well stands still now and
        # then, and is as seldom very quick.
        odd = round(len(steps) * ODD)
        usual = steps[odd : len(steps) - odd]
        seconds = sum(step.seconds for step in usual)
        return seconds / len(usual), sum(step.exchange for step in usual) / seconds


def in_lab(link: str, shape: Shape, nodes: int, words: list[str], changes: list[str]) -> str:
    """Run a command on all nodes of a laboratory; return what it says."""
    command = [*on_the_cores_of(nodes), *UNISONO, "lab", "--nodes", str(nodes)]
    command += [f"--link={link}"]
    command += [f"--workers-per-node={shape.workers}", "--", *words]
    command += [word for change in changes for word in ("--set", change)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    stop_signs = (1,) if words[0] == "check" else ()
    if done.returncode not in (0, *stop_signs):
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def row(link: str, shape: Shape, way: str, case: Case) -> str:
    """Return a line of the table."""
    clear = {None: "too close to tell", True: "stop is right", False: "go is right"}
    off = f"{case.link_error:+.1%}" if case.link_error is not None else "–"
    return (
        f"| {link or 'no limit'} | {shape.name}, {way} | {case.forecast:.3f} | "
        f"{case.low:.3f} – {case.high:.3f} | {case.truth:.3f} | {case.error:+.1%} | {off} | "
        f"{case.alone:.3f} | "
        f"{case.waited:.0%}, {'stop' if case.stop else 'go'}: {clear[case.should_stop]} | "
        f"{case.seconds:.0f} s |"
    )


def print_summary(cases: list[Case]) -> None:
    """Print what the goals are about."""
    errors = sorted(abs(case.error) for case in cases)
    ninth = quantiles(errors, n=10)[-1] if len(errors) > 1 else errors[0]
    links = [abs(case.link_error) for case in cases if case.link_error is not None]
    clear = [case for case in cases if case.should_stop is not None]
    right = sum(bool(case.stop) == case.should_stop for case in clear)
    print(f"\nstep: median error {median(errors):.1%}, 90th percentile {ninth:.1%}")
    print(f"interval held the truth in {sum(c.held for c in cases)} of {len(cases)}")
    print(f"link: median error {median(links):.1%}, largest {max(links):.1%}" if links else "")
    print(f"stop sign right in {right} of {len(clear)} clear cases")
    print(f"the longest check took {max(case.seconds for case in cases):.0f} s")


if __name__ == "__main__":
    main()
