"""Does `train.compile` pay? Plain and compiled layers in one process, turn by turn.

    taskset -c 1 python benchmarks/compiled.py corpora/multi30k-en-de small --dropout 0.1

Seconds are those of the processor, not of the clock: the machine may be busy. The first
updates, which compile, are counted apart.
"""

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from unisono.batching.settings import Budget
from unisono.batching.stream import PreparedUpdate, Stream
from unisono.corpus.reader import open_corpus
from unisono.models.output import loss_sums
from unisono.models.settings import PRESETS, TransformerSettings
from unisono.models.transformer import build_model
from unisono.train.compiling import Compiling

FIRST, ROUNDS, UPDATES = 24, 6, 6


class Trainee:
    """A model and its optimizer."""

    def __init__(
        self, settings: TransformerSettings, vocabulary: int, *, compiled: bool
    ) -> None:
        torch.manual_seed(0)
        self.model = build_model(settings, vocabulary).train()
        Compiling(compiled).prepare(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)

    def train(self, works: Sequence[PreparedUpdate]) -> list[float]:
        """Make these updates and return their losses."""
        losses = []
        for seed, work in enumerate(works):
            torch.manual_seed(seed)
            self.optimizer.zero_grad()
            (batch,) = work.batches
            words = batch.source, batch.target_in, batch.target_out
            loss = loss_sums(self.model, *words, 0.1) / work.plan.target_tokens
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--dropout", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = open_corpus(options.corpus)
    kinds = ("dropout", "attention_dropout", "activation_dropout")
    sizes = {**PRESETS[options.preset], **dict.fromkeys(kinds, options.dropout)}
    stream = Stream(corpus.split("train"), Budget(2048, 2048), seed=1).from_position(1, 0)
    works = [next(stream) for _ in range(FIRST + ROUNDS * UPDATES)]
    settings, vocabulary = TransformerSettings(**sizes), corpus.manifest.vocabulary
    trainees = {
        name: Trainee(settings, vocabulary, compiled=compiled)
        for name, compiled in (("plain", False), ("compiled", True))
    }
    measure_start(trainees, works[:FIRST])
    measure_speed(trainees, works[FIRST:])


def measure_start(trainees: dict[str, Trainee], works: Sequence[PreparedUpdate]) -> None:
    """Print what compiling costs, and how far the losses are apart."""
    seconds, losses = {}, {}
    for name, trainee in trainees.items():
        before = of_the_processor()
        losses[name] = trainee.train(works)
        seconds[name] = of_the_processor() - before
    pairs = zip(losses["plain"], losses["compiled"], strict=True)
    apart = max(abs(one - other) / one for one, other in pairs)
    print(f"compiling: {seconds['compiled'] - seconds['plain']:.0f} s of the processor")
    print(f"losses of {len(works)} updates: at most {apart:.1e} apart")


def measure_speed(trainees: dict[str, Trainee], works: Sequence[PreparedUpdate]) -> None:
    """Print the speed of both, and the ratio."""
    rates: dict[str, list[float]] = {name: [] for name in trainees}
    for start in range(0, len(works), UPDATES):
        some = works[start : start + UPDATES]
        tokens = sum(work.plan.target_tokens for work in some)
        for name, trainee in trainees.items():
            before = time.process_time()
            trainee.train(some)
            rates[name].append(tokens / (time.process_time() - before))
    for name, found in rates.items():
        told = ", ".join(f"{rate:,.0f}" for rate in found)
        print(f"{name}: {statistics.median(found):,.0f} target tokens/s ({told})")
    pairs = zip(rates["plain"], rates["compiled"], strict=True)
    ratio = statistics.median(other / one for one, other in pairs)
    print(f"compiled / plain: {ratio:.2f} (median of {len(rates['plain'])} rounds)")


def of_the_processor() -> float:
    """Return the seconds this process and its children, compilers, have computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
