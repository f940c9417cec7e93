"""How much of full speed is left over a slow link, with each way to exchange?

    python benchmarks/network.py [--config configs/demo.toml] [--ratios 2.7,50] [--seconds 30]
                                 [--ways ddp,compressed:8,compressed:4,auto] [--rounds 3]

Two nodes of a laboratory train without a limit first: what a step computes and what it would
send gives the link at which plain exchange takes `ratio` times as long as computing. In the
field it was 2.7 (run B) and 50 (run A). Then every way trains over that link, in turns with
one node alone, with two nodes without a limit, and with two that train at the same time and
never speak to each other: more than these no exchange can reach on this machine. Printed:
sentences a second, as a share of the two without a limit and in multiples of the one alone.
The config's corpus has to be prepared.

An update has 4,096 tokens for each node, in one micro-batch. Packing, and the network itself,
which here has no card of its own, take of the processor by the number of weights, computing by
that of tokens: with 1,024 tokens they took a sixth of the time.
"""

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import machine, median, on_the_cores_of

from unisono.physics.ring import ring_bytes
from unisono.records.view import RunView, read_run

UNISONO = [sys.executable, "-m", "unisono"]
WARM_UP_STEPS = 3
CARRIED = 0.955  # of a shaped rate, without headers
ALONE, APART, NO_LIMIT = "one node", "two nodes apart", "two nodes, no limit"
MODEL = (
    "model.width=256",
    "model.inner=1024",
    "batching.tokens_per_update=8192",
    "batching.tokens_per_micro_batch=4096",
    "validation.every_steps=1000000",
    "checkpoint.every_steps=1000000",
    "validation.bleu=false",
    "validation.best=loss",
    "validation.samples=0",
    "train.patience=0",
    "train.max_steps=1000000",
)


def main() -> None:
    """Measure every way at every ratio; print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="configs/demo.toml")
    parser.add_argument("--ratios", default="2.7,50")
    parser.add_argument("--ways", default="ddp,compressed:16,compressed:8,compressed:4,auto")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    full = train(options.config, 2, "", "ddp", options.seconds)
    computing = median(step.seconds - step.exchange for step in full.steps[WARM_UP_STEPS:])
    size = ring_bytes(full.starts[0].parameters, 2)
    print(f"computing {computing:.3f} s, {size / 1e6:.1f} MB through each card")
    for ratio in map(float, options.ratios.split(",")):
        bits = size * 8 / (ratio * computing * CARRIED)
        compare(options, ratio, f"{bits / 1000:.0f}kbit")


def compare(options: argparse.Namespace, ratio: float, link: str) -> None:
    """Let all ways take turns over a link; print how they did."""
    ways = [ALONE, APART, NO_LIMIT, *options.ways.split(",")]
    found: dict[str, list[float]] = {way: [] for way in ways}
    chosen: dict[str, str] = {}
    for _ in range(options.rounds):
        for way in ways:
            views = trained(way, options, link)
            found[way].append(sum(rate_of(view) for view in views))
            start = views[0].starts[0]
            chosen[way] = f"{start.strategy}, {start.bits} bits, every {start.every}"
            print(f"    {way}: {found[way][-1]:.1f} sentences/s", file=sys.stderr, flush=True)
    one, full = (median(found[way]) for way in (ALONE, NO_LIMIT))
    print(f"\nexchange : computing = {ratio:g} : 1, link {link}\n")
    print("| way | sentences/s | of two without a limit | times one node |")
    print("|---|---|---|---|")
    for way in ways:
        rate = median(found[way])
        name = f"{way} ({chosen[way]})" if way == "auto" else way
        print(f"| {name} | {rate:.1f} | {rate / full:.2f} | {rate / one:.2f} |", flush=True)


def trained(way: str, options: argparse.Namespace, link: str) -> list[RunView]:
    """Train as `way` says; return the run, or both."""
    config, seconds = options.config, options.seconds
    if way == APART:
        with ThreadPoolExecutor() as both:
            return list(
                both.map(lambda node: train(config, 1, "", "ddp", seconds, node), (0, 1))
            )
    if way in (ALONE, NO_LIMIT):
        return [train(config, 1 if way == ALONE else 2, "", "ddp", seconds)]
    return [train(config, 2, link, way, seconds)]


def train(
    config: str, nodes: int, link: str, way: str, seconds: float, first: int = 0
) -> RunView:
    """Train for a while in a laboratory, from node `first` on; return the run."""
    strategy, _, bits = way.partition(":")
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        changes = [*MODEL, f"run={run}", f"sync.strategy={strategy}"]
        changes += [f"sync.bits={bits}"] if bits else []
        changes.append(f"train.max_time={seconds:.0f} s")
        lab = ["lab", "--nodes", str(nodes), f"--link={link}", "--"]
        command = [*on_the_cores_of(nodes, first=first), *UNISONO, *lab]
        command += ["train", config]
        command += [word for change in changes for word in ("--set", change)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
        return read_run(run)


def rate_of(view: RunView) -> float:
    """Return sentences a second from the first update after the warm-up to the last."""
    steps = view.steps[WARM_UP_STEPS:] or view.steps[-1:]
    return sum(step.sentences for step in steps) / sum(step.seconds for step in steps)


if __name__ == "__main__":
    main()
