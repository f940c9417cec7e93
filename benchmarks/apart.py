"""What would other ways to agree on weights cost in quality? One process plays all machines.

    python benchmarks/apart.py [--machines 2] [--steps 500] [--seed 1]
                               [--ways "every=8 bits=4" "every=8 bits=2 decay=0.9" …]
                               [--set optimizer.name=muon …]

Multi30k with the recipe of examples/multi30k, all its lengths made shorter (5,500 updates are
its own), on machines that make local updates as `diloco` does, beside exact ones. A way is

    every        local updates between two exchanges of the same weights
    bits         of each number: 2, 4, 8, 16 or 32
    decay        of residuals: what is kept of one until it is sent
    words_every  the distance for word matrices, if it is another
    late_every   the distance after the share `late` of all updates, if it is another
    phases       in which machines sum

Ideas are tried here before they become settings: what does not pay never does. Unlike a run,
machines do not make their weights the same for validations, and moments are never averaged.
The corpus has to be prepared: `unisono prepare examples/multi30k/train.toml`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import torch
from measure import machine
from torch import Tensor, nn

from unisono.batching.stream import Batch, PreparedUpdate, Stream, collate
from unisono.comm.group import Solo
from unisono.comm.protocol import LossOf
from unisono.comm.strategies.diloco import usual_rate
from unisono.comm.strategies.diloco_outer import fragment_count, fragments_of, turn
from unisono.comm.strategies.quantize import Bits, dequantize, padded, quantize
from unisono.comm.strategies.strategy_state import NoState
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.cost_model.exchange import QUANTIZED_BLOCK
from unisono.models.output import loss_sums
from unisono.models.transformer import TransformerModel, build_model
from unisono.optim.build import EMBEDDINGS, build_optimizer
from unisono.stopwatch import Stopwatch
from unisono.train.averages import Averages
from unisono.train.process_setup import set_randomness
from unisono.train.step import Parts, StepRequests, take_step

CONFIG = "examples/multi30k/train.toml"
AVERAGED = 0.18  # of a run is what its moving average looks back on, as in the whole recipe
SENTENCES_AT_ONCE = 64
WAYS = ("every=8 bits=4", "every=8 bits=2", "every=8 bits=4 decay=0.9")


class Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How machines agree; `every` = 0 is exact."""

    every: int = 0
    bits: int = 4
    decay: float = 1.0
    words_every: int = 0
    late_every: int = 0
    late: float = 0.7
    phases: int = 1

    def distances(self, share: float) -> tuple[int, int]:
        """Return the distances for words and all else after this share of all updates."""
        every = self.late_every if self.late_every and share >= self.late else self.every
        return min(every, self.words_every or every), every


@dataclass(frozen=True)
class LocalState(NoState):
    """The memory of a machine that makes local updates: only its rates differ."""

    machines: int

    def rate_factor(self, *, words: bool) -> float:
        return usual_rate(self.machines, words=words)


@dataclass(frozen=True)
class PlayedReplica:
    """The model of one of `machines`, whose loss is scaled to that of all."""

    module: nn.Module
    memory: NoState
    machines: int

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        total = torch.zeros(())
        for batch in batches:
            loss = loss_of(self.module, batch) * self.machines
            loss.backward()
            total += loss.detach() / self.machines
        return total


def rounded(numbers: Tensor, bits: int) -> Tensor:
    """Return what arrives of `numbers`, which are whole blocks."""
    if bits in get_args(Bits):
        return dequantize(quantize(numbers, bits), bits)  # type: ignore[arg-type]
    if bits != 2:
        raise SystemExit(f"bits={bits} cannot be played")
    blocks = numbers.view(-1, QUANTIZED_BLOCK)
    cell = blocks.abs().amax(dim=1, keepdim=True).div_(2).clamp_(min=1e-30)
    return (((blocks / cell).floor().clamp_(-2, 1) + 0.5) * cell).view(-1)


def summed(rows: Tensor, bits: int, phases: int) -> Tensor:
    """Return the sum of what arrives of `rows`, one for each machine; leave residuals there."""
    if phases == 1:
        sent = torch.stack([rounded(row, bits) for row in rows])
        rows -= sent
        return sent.sum(dim=0)
    machines, shares = len(rows), rows.view(len(rows), len(rows), -1)
    totals = []
    for owner in range(machines):
        mine = shares[owner, owner].clone()
        for other in (r for r in range(machines) if r != owner):
            arrived = rounded(shares[other, owner].contiguous(), bits)
            shares[other, owner] -= arrived
            mine += arrived
        totals.append(rounded(mine, bits))
        shares[owner, owner] = mine - totals[-1]
    return torch.cat(totals)


class Rounds:
    """Some weights of all machines, on whose fragments they agree in turn."""

    def __init__(self, weights: list[list[Tensor]], every: int, way: Way) -> None:
        """`weights` has those of each machine."""
        self.weights, self.every, self.way = weights, every, way
        sizes = [one.numel() for one in weights[0]]
        self.fragments = fragments_of(sizes, fragment_count(every, 64))
        shares = len(weights) if way.phases == 2 else 1
        self.anchors = [self.rows(number)[0].clone() for number in range(len(self.fragments))]
        self.residuals = [
            torch.zeros(len(weights), padded(len(anchor), shares)) for anchor in self.anchors
        ]
        self.pending: tuple[int, Tensor, Tensor] | None = None

    def views(self, number: int, place: int) -> list[Tensor]:
        """Return the pieces of a fragment on one machine."""
        weights = self.weights[place]
        return [weights[s.weight].view(-1)[s.start : s.stop] for s in self.fragments[number]]

    def rows(self, number: int) -> Tensor:
        """Return a fragment of all machines."""
        places = range(len(self.weights))
        return torch.stack([torch.cat(self.views(number, place)) for place in places])

    def take_turn(self, step: int) -> None:
        """Finish what is pending, and send what has its turn."""
        number = turn(step, self.every, len(self.fragments))
        if number is None:
            return
        self.finish()
        here, residual = self.rows(number), self.residuals[number]
        residual *= self.way.decay
        residual[:, : here.size(1)] += self.anchors[number] - here
        total = summed(residual, self.way.bits, self.way.phases)
        self.pending = number, here, total[: here.size(1)] / len(here)

    def finish(self) -> None:
        """Move the common weights; each machine keeps what it has moved since."""
        if self.pending is None:
            return
        number, here, mean = self.pending
        self.pending = None
        self.anchors[number] = self.anchors[number] - mean
        self.put(number, self.rows(number) - here + self.anchors[number])

    def put(self, number: int, rows: Tensor) -> None:
        """Set a fragment on all machines."""
        for place, row in enumerate(rows):
            views = self.views(number, place)
            for view, part in zip(views, row.split([v.numel() for v in views]), strict=True):
                view.copy_(part)

    def close(self) -> None:
        """Give all machines the mean, with what was never sent."""
        self.finish()
        for number, anchor in enumerate(self.anchors):
            rows = self.rows(number)
            moved = anchor - rows + self.residuals[number][:, : len(anchor)]
            self.put(number, (anchor - moved.mean(dim=0)).expand_as(rows))


class Machines:
    """All machines of a way, and the weights that they would have in common."""

    def __init__(self, way: Way, settings: Settings, corpus: Corpus, count: int) -> None:
        self.way, self.settings, self.corpus = way, settings, corpus
        self.count = count if way.every else 1
        self.parts = [self._part() for _ in range(self.count)]
        self.works = [self._works(rank) for rank in range(self.count)]
        self.common = self._model()
        self.averages = Averages(self.common.named_parameters(), settings.train.average)
        self.rounds: list[Rounds] = []
        self.distances = (0, 0)

    def _model(self) -> TransformerModel:
        set_randomness(self.settings.seed)
        manifest = self.corpus.manifest
        sizes = manifest.vocabulary, manifest.source_vocabulary
        return build_model(self.settings.model, *sizes).train()

    def _part(self) -> Parts:
        model, train = self._model(), self.settings.train
        memory = LocalState(self.count) if self.way.every else NoState()
        return Parts(
            PlayedReplica(model, memory, self.count),
            Solo(),
            build_optimizer(self.settings.optimizer, model),
            self.settings.schedule,
            self.settings.seed,
            train.label_smoothing,
            train.clip_norm,
            train.word_rate,
        )

    def _works(self, rank: int) -> Iterator[PreparedUpdate]:
        split, budget = self.corpus.split("train"), self.settings.batching.filled()
        stream, epoch = Stream(split, budget, self.settings.seed, rank, self.count), 1
        while True:
            yield from stream.from_position(epoch, 0)
            epoch += 1

    def update(self, step: int, steps: int) -> None:
        """Let each machine make an update, and agree on what has its turn."""
        for part, works in zip(self.parts, self.works, strict=True):
            take_step(part, next(works), step, StepRequests())
        with torch.no_grad():
            if self.way.every:
                self._agree(step, step / steps)
            for own, *theirs in zip(self.common.parameters(), *self._weights(), strict=True):
                own.copy_(sum(theirs) / len(theirs))
        self.averages.update(step)

    def _agree(self, step: int, share: float) -> None:
        distances = self.way.distances(share)
        if distances != self.distances:
            for rounds in self.rounds:
                rounds.close()
            self.distances, self.rounds = distances, self._rounds(*distances)
        for rounds in self.rounds:
            rounds.take_turn(step)

    def _rounds(self, words: int, others: int) -> list[Rounds]:
        if words == others:
            return [Rounds(self._weights(), others, self.way)]
        chosen = {True: list[list[Tensor]](), False: list[list[Tensor]]()}
        for part in self.parts:
            for is_words, weights in chosen.items():
                groups = part.optimizer.param_groups
                mine = [g["params"] for g in groups if g.get(EMBEDDINGS, False) == is_words]
                weights.append([w.detach() for group in mine for w in group])
        return [Rounds(chosen[True], words, self.way), Rounds(chosen[False], others, self.way)]

    def _weights(self) -> list[list[Tensor]]:
        return [[w.detach() for w in part.replica.module.parameters()] for part in self.parts]

    @torch.no_grad()
    def loss(self) -> float:
        """Return the validation loss of the moving average of the common weights."""
        split, model = self.corpus.split("valid"), self.common.eval()
        whole = tokens = 0.0
        with self.averages.in_place():
            for batch in batches_of(len(split), lambda rows: collate(split, rows)):
                sums = loss_sums(model, batch.source, batch.target_in, batch.target_out, 0.0)
                whole += float(sums)
                tokens += float((batch.target_out != 0).sum())
        model.train()
        return whole / tokens


def batches_of(pairs: int, batch: Callable[[Any], Batch]) -> Iterator[Batch]:
    """Yield all pairs, some at a time."""
    for start in range(0, pairs, SENTENCES_AT_ONCE):
        yield batch(np.arange(start, min(pairs, start + SENTENCES_AT_ONCE)))


def main() -> None:
    """Train in every way; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--validations", type=int, default=5)
    parser.add_argument("--set", nargs="+", default=[], dest="changes")
    options = parser.parse_args()
    print(f"{machine()}\n{options.machines} machines, {options.steps} updates, seed ", end="")
    print(f"{options.seed} {' '.join(options.changes)}\n")
    print("| way | validation loss | over exact |\n|---|---|---|")
    exact = trained("every=0", options)
    print(f"| exact | {exact:.4f} | |", flush=True)
    for way in options.ways:
        loss = trained(way, options)
        print(f"| {way} | {loss:.4f} | {loss / exact - 1:+.2%} |", flush=True)


def trained(text: str, options: argparse.Namespace) -> float:
    """Train one way to its end; return its validation loss."""
    way = msgspec.convert(dict(one.split("=") for one in text.split()), Way, strict=False)
    steps = options.steps
    changes = [
        f"seed={options.seed}",
        f"schedule.total_steps={steps}",
        f"schedule.warmup_steps={steps // 10}",
        f"train.average={1 - 1 / (AVERAGED * steps):.5f}",
        *options.changes,
    ]
    settings = load_settings(Path(CONFIG), changes)
    machines = Machines(
        way, settings, open_corpus(Path(settings.corpus.directory)), options.machines
    )
    loss = 0.0
    for step in range(1, steps + 1):
        machines.update(step, steps)
        if step % (steps // options.validations) == 0:
            loss = machines.loss()
            print(f"    {text}: {step}: {loss:.4f}", file=sys.stderr, flush=True)
    return loss


if __name__ == "__main__":
    main()
