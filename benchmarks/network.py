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
import sys
from concurrent.futures import ThreadPoolExecutor

from measure import machine, median
from slow_link import WARM_UP_STEPS, links_for, train

from unisono.records.view import RunView

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
    ratios = [float(ratio) for ratio in options.ratios.split(",")]
    full = trained(NO_LIMIT, options, "")[0]
    for ratio, link in zip(ratios, links_for(full, ratios), strict=True):
        compare(options, ratio, link)


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
    config, changes = options.config, [*MODEL, f"train.max_time={options.seconds:.0f} s"]
    if way == APART:
        with ThreadPoolExecutor() as both:
            return list(
                both.map(lambda n: train(config, "ddp", changes, nodes=1, first=n), (0, 1))
            )
    if way in (ALONE, NO_LIMIT):
        return [train(config, "ddp", changes, nodes=1 if way == ALONE else 2)]
    return [train(config, way, changes, link=link)]


def rate_of(view: RunView) -> float:
    """Return sentences a second from the first update after the warm-up to the last."""
    steps = view.steps[WARM_UP_STEPS:] or view.steps[-1:]
    return sum(step.sentences for step in steps) / sum(step.seconds for step in steps)


if __name__ == "__main__":
    main()
