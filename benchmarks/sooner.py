"""How much sooner is a loss reached over a slow link, if the exchange suits it?

    python benchmarks/sooner.py [--config configs/demo.toml] [--ratios 2.7,50]
                                [--updates 600,120]

Two nodes of a laboratory, over a link at which plain exchange takes `ratio` times as long as
computing. Exact gradients (`ddp`) train for so many updates; then `auto` trains with the same
settings, and validates along the way. Printed: the seconds until `auto` has a validation loss
as low as that of `ddp` at its end, from the start of the processes' clocks to the end of that
validation, choosing and validations included. The config's corpus has to be prepared.
"""

import argparse
import sys

from measure import machine
from slow_link import links_for, train

from unisono.records.view import RunView

LONGER = 2  # as many updates as `ddp`, at the most
LOOKS = 3  # of `auto`, in as many updates as `ddp` makes
QUIET = (
    "validation.bleu=false",
    "validation.best=loss",
    "validation.samples=0",
    "checkpoint.every_steps=1000000",
    "train.patience=0",
)


def main() -> None:
    """Race both over every link; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="configs/demo.toml")
    parser.add_argument("--ratios", default="2.7,50")
    parser.add_argument("--updates", default="600,120")
    options = parser.parse_args()
    print(machine())
    ratios = [float(ratio) for ratio in options.ratios.split(",")]
    updates = [int(count) for count in options.updates.split(",")]
    full = train(options.config, "ddp", [*QUIET, "train.max_steps=60"])
    rows = []
    for ratio, count, link in zip(ratios, updates, links_for(full, ratios), strict=True):
        rows.append(race(options.config, ratio, count, link))
        print(f"    {rows[-1]}", file=sys.stderr, flush=True)
    print("\n| exchange : computing | link | `ddp` | `auto` | sooner |\n|---|---|---|---|---|")
    print("\n".join(rows))


def race(config: str, ratio: float, updates: int, link: str) -> str:
    """Let both train over a link; return a line of the table."""
    exact = run(config, "ddp", updates, updates, link)
    auto = run(config, "auto", updates * LONGER, updates // LOOKS, link)
    goal, needed = exact.validations[-1].loss, since_start(exact, exact.validations[-1].time)
    there = next((look for look in auto.validations if look.loss <= goal), None)
    start = auto.starts[0]
    chosen = f"{start.strategy}, {start.bits} bits, every {start.every}"
    row = f"| {ratio:g} : 1 | {link} | loss {goal:.4f} after {updates} updates, {needed:.0f} s "
    if there is None:
        return f"{row}| ({chosen}) not in {updates * LONGER} updates | – |"
    took = since_start(auto, there.time)
    row += f"| ({chosen}) {there.loss:.4f} after {there.step}, {took:.0f} s "
    return f"{row}| {needed / took:.1f} times |"


def run(config: str, way: str, updates: int, every: int, link: str) -> RunView:
    """Train so many updates, with a validation now and then."""
    changes = [*QUIET, f"train.max_steps={updates}", f"validation.every_steps={every}"]
    return train(config, way, changes, link=link)


def since_start(view: RunView, time: float) -> float:
    """Return the seconds of a run before `time`."""
    return time - min(view.seen)


if __name__ == "__main__":
    main()
