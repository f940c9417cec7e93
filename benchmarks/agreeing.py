"""What does a cheaper exchange cost in quality, at equal tokens?

    python benchmarks/agreeing.py [--ways "compressed bits=4" "diloco bits=4 local_steps=8"]
                                  [--steps 500] [--seeds 1,2,3] [--set train.word_rate=8 …]
                                  [--nodes 2] [--runs DIRECTORY [--turn 500]]

Multi30k with the recipe of examples/multi30k, all its lengths made shorter (5,500 updates are
its own): nodes of a laboratory train with the exact exchange and with each way, which is a
strategy and settings of `[sync]`, from the same seeds. Printed for each: the validation loss at
the end over that of the exact exchange, and BLEU on test_2016_flickr with the paired bootstrap
over the translations of all seeds. `--set` changes the recipe of all.
The corpus has to be prepared: `unisono prepare examples/multi30k/train.toml`.

A training of full length (`--steps 5500`) takes longer than a shared machine gives at a time.
`--runs` keeps the runs, and the same command goes on where it was interrupted (SIGTERM stops
and saves). All ways train `--turn` updates in turn, to be compared before they end.

The losses along the way are printed as well, so that with the seconds of a step over some link
(benchmarks/network.py) one can tell when a way reaches what the exact one has at its end.
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from measure import machine
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from unisono.records.view import read_run

UNISONO = [sys.executable, "-m", "unisono"]
CONFIG = "examples/multi30k/train.toml"
TEXT = Path("data/multi30k-en-de")
TEST = "test_2016_flickr"
EXACT = "ddp"
VALIDATIONS = 6
AVERAGED = 0.18  # of a run is what its moving average looks back on, as in the whole recipe
WAYS = ("compressed bits=4", "diloco bits=4 local_steps=8")


@dataclass(frozen=True)
class Run:
    """What came of one training so far: losses by step, and translations of the test set."""

    losses: dict[int, float]
    translations: list[str]

    @property
    def last(self) -> float:
        """Return the loss at the end."""
        return self.losses[max(self.losses)]


def main() -> None:
    """Train in every way from every seed; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--runs", type=Path, help="keep the runs here, and continue them")
    parser.add_argument("--turn", type=int, help="updates until the next way has its turn")
    parser.add_argument("--set", nargs="+", default=[], dest="changes")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; the same command goes on"))
    print(machine())
    if options.runs is not None:
        compare(options, options.runs)
        return
    with tempfile.TemporaryDirectory() as directory:
        compare(options, Path(directory))


def compare(options: argparse.Namespace, runs: Path) -> None:
    """Train in every way from every seed in `runs`; print a table."""
    ways = [EXACT, *options.ways]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    for seed in seeds:
        for until in turns(options.steps, options.turn or options.steps):
            for way in ways:
                train(way, seed, until, options, runs)
    found = {way: [outcome(way, seed, options, runs) for seed in seeds] for way in ways}
    print(f"{options.steps} updates, seeds {options.seeds} {' '.join(options.changes)}\n")
    print("| way | validation loss | over exact | BLEU | against exact | p |")
    print("|---|---|---|---|---|---|")
    for way in ways:
        print(row(way, found[way], found[EXACT]), flush=True)


def turns(steps: int, turn: int) -> list[int]:
    """Return the updates after which another way goes on."""
    return [*range(turn, steps, turn), steps]


def run_of(way: str, seed: int, options: argparse.Namespace, runs: Path) -> Path:
    """Return the directory of a run; other settings have another."""
    told = [*way.split(), f"{options.steps}-updates", *options.changes]
    name = "-".join([*told, f"{options.nodes}-nodes", f"seed-{seed}"])
    return runs / re.sub(r"[^\w.=-]", "_", name)


def train(way: str, seed: int, until: int, options: argparse.Namespace, runs: Path) -> None:
    """Train one way on until so many updates; show the losses so far."""
    run = run_of(way, seed, options, runs)
    if max(losses_of(run), default=0) >= until:
        return
    strategy, *settings = way.split()
    steps = options.steps
    every = min(options.turn or steps, steps // VALIDATIONS)
    changes = [
        f"seed={seed}",
        f"run={run}",
        f"train.max_steps={until}",
        f"schedule.total_steps={steps}",
        f"schedule.warmup_steps={steps // 10}",
        f"train.average={1 - 1 / (AVERAGED * steps):.5f}",
        f"validation.every_steps={every}",
        f"checkpoint.every_steps={every}",
        "validation.bleu=false",
        "validation.best=loss",
        f"sync.strategy={strategy}",
        "sync.warmup_steps=0",
        *(f"sync.{setting}" for setting in settings),
        *options.changes,
    ]
    lab = ("lab", "--nodes", str(options.nodes), "--")
    called(*lab, "train", CONFIG, *sets(changes))
    told = ", ".join(f"{step}: {loss:.4f}" for step, loss in losses_of(run).items())
    print(f"    seed {seed}, {way}: {told}", file=sys.stderr, flush=True)


def losses_of(run: Path) -> dict[int, float]:
    """Return the validation losses of a run so far, by step."""
    if not run.exists():
        return {}
    return {event.step: event.loss for event in read_run(run).validations if event.loss}


def outcome(way: str, seed: int, options: argparse.Namespace, runs: Path) -> Run:
    """Translate the test set with what a run has learnt."""
    run = run_of(way, seed, options, runs)
    source = (TEXT / f"{TEST}.en").read_text("utf-8")
    said = called("translate", "--model", str(run), "--beam", "1", text=source)
    return Run(losses_of(run), said.splitlines())


def sets(changes: list[str]) -> list[str]:
    """Return the changes as a user writes them."""
    return [word for change in changes for word in ("--set", change)]


def called(*words: str, text: str = "") -> str:
    """Run a command of Unisono; return what it prints."""
    command = [*UNISONO, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            said, problem = process.communicate(text)
        except BaseException:
            process.terminate()  # it saves what it has learnt
            process.communicate()
            raise
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{problem[-3000:]}")
    return said


def row(way: str, runs: list[Run], exact: list[Run]) -> str:
    """Return a line of the table."""
    over = [run.last / other.last - 1 for run, other in zip(runs, exact, strict=True)]
    spread = f"{mean(over):+.2%} ({', '.join(f'{share:+.2%}' for share in over)})"
    reference = (TEXT / f"{TEST}.de").read_text("utf-8").splitlines() * len(runs)
    pooled, other = ([t for run in some for t in run.translations] for some in (runs, exact))
    score = BLEU().corpus_score(pooled, [reference]).score
    if way == EXACT:
        return f"| {way} | {mean(run.last for run in runs):.4f} | | {score:.2f} | | |"
    systems = [(EXACT, other), (way, pooled)]
    test = PairedTest(systems, {"BLEU": BLEU()}, [reference], test_type="bs", n_samples=1000)
    _, scores = test()
    before, after = scores["BLEU"]
    return (
        f"| {way} | {mean(run.last for run in runs):.4f} | {spread} | {score:.2f} | "
        f"{after.score - before.score:+.2f} | {after.p_value:.3f} |"
    )


if __name__ == "__main__":
    main()
