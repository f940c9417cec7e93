"""How much training time does a checkpoint take, written before training goes on or meanwhile?

    python benchmarks/saving.py [--million-weights 60] [--rounds 5] [--device cpu]

Each round takes the same updates (matrix products, and Adam over all weights) three times, in
turn: without a save, with one that is waited for, with one that is written meanwhile. What a
save takes is the difference to the first, in medians over the rounds; the stall is what the
event `saved` says.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measure import machine, median
from torch import nn

from unisono.comm.group import Solo
from unisono.records.events import Saved
from unisono.train.averages import Averages
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.progress import Progress

WIDTH, LAYERS = 1024, 4
ROWS = 256


class Training:
    """Updates of a model with so many weights, and its checkpoints."""

    def __init__(self, weights: int, device: str, directory: Path) -> None:
        layers = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
        rest = max(1, weights // WIDTH - LAYERS * WIDTH)
        self.model = nn.ModuleList([*layers, nn.Embedding(rest, WIDTH)]).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.device = device
        self.checkpoints = CheckpointSync(
            directory, 2, Solo(), self.model, self.optimizer, Averages(), lambda: self.model
        )

    def update(self) -> None:
        """Take one update, and wait for the device."""
        values = torch.ones(ROWS, WIDTH, device=self.device)
        *layers, words = self.model
        for layer in layers:
            values = torch.tanh(layer(values))
        loss = values.square().mean() + words.weight[:ROWS].square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        loss.item()


def main() -> None:
    """Print what a save takes either way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million-weights", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        weights = int(options.million_weights * 1e6)
        training = Training(weights, options.device, Path(directory))
        found = measure(training, options.rounds)
        training.checkpoints.close()
    print(machine(), f"load {os.getloadavg()[0]:.1f}")
    print(f"{options.million_weights:g} million weights, {found['bytes'] / 1e6:.0f} MB")
    for name in ("waited for", "meanwhile"):
        print(f"{name}: {found[name]:.2f} s more than without a save")
    print(f"writing takes {found['writing']:.2f} s, the stall is {found['stall']:.3f} s")


def measure(training: Training, rounds: int) -> dict[str, float]:
    """Return medians over the rounds, each with enough updates to hide a save."""
    for _ in range(3):
        training.update()
    wait = seconds_of(lambda: training.checkpoints.save(Progress(step=1)))
    each = seconds_of(training.update)
    updates = int(3 * wait / each) + 2
    saves: list[Saved] = []
    ways: dict[str, Callable[[int], None]] = {
        "without": lambda step: take(training, updates),
        "waited for": lambda step: save_and_take(training, updates, step),
        "meanwhile": lambda step: saves.append(take_and_save(training, updates, step)),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for place, (name, way) in enumerate(ways.items()):
            step = 10 * (number + 1) + place
            took[name].append(seconds_of(lambda: way(step)))  # noqa: B023 - called at once
    more = {
        name: median([a - b for a, b in zip(seconds, took["without"], strict=True)])
        for name, seconds in took.items()
    }
    stall, writing = (median([getattr(s, n) for s in saves]) for n in ("stall", "seconds"))
    return {**more, "stall": stall, "writing": writing, "bytes": saves[-1].bytes}


def take(training: Training, updates: int) -> None:
    """Take so many updates."""
    for _ in range(updates):
        training.update()


def save_and_take(training: Training, updates: int, step: int) -> None:
    """Save, and take updates when that is done."""
    training.checkpoints.save(Progress(step=step))
    take(training, updates)


def take_and_save(training: Training, updates: int, step: int) -> Saved:
    """Begin to save, and take updates meanwhile."""
    training.checkpoints.begin_save(Progress(step=step))
    take(training, updates)
    event = training.checkpoints.finish_save()
    if not isinstance(event, Saved):
        raise SystemExit(event.message)
    return event


def seconds_of(action: Callable[[], object]) -> float:
    """Return how long `action` takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
