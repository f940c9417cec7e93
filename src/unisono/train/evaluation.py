"""Validations and the final test: scores, samples and their events, shared by all processes.

The batches of a split do not depend on the number of processes, and every process gets the
loss and the translation of every sentence. So all processes know the same scores, however many
they are. Each gets about the same amount of work, so that nobody waits for long.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import torch

from unisono import atomic
from unisono.batching.plan import END, Indices, Lengths, batch_by_length
from unisono.batching.stream import Batch, collate
from unisono.comm.protocol import Comm
from unisono.corpus.reader import Split
from unisono.models.output import token_losses
from unisono.models.transformer import TransformerModel
from unisono.records.events import Sample, Tested, Validated
from unisono.records.layout import RunDirectory, make_place
from unisono.records.sentence_losses import count_repeating, write_losses
from unisono.score import Bleu, score_bleu
from unisono.score.metrics import score_chrf
from unisono.text.tokenizer import Tokenizer
from unisono.train.compiling import Compiling
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

V = TypeVar("V")

ROWS_OF_A_STEP = 128  # the fixed cost of one search step, in rows


@dataclass(frozen=True, eq=False)
class EvaluationSplit:
    """The pairs to score a model on: all of a split, or those with the numbers `pairs`.

    The tokenizer is that of the target.
    """

    split: Split
    tokenizer: Tokenizer
    tokens_per_batch: int
    decoding: Decoding
    pairs: Indices | None = None

    def __len__(self) -> int:
        return len(self.split) if self.pairs is None else len(self.pairs)

    @property
    def target_tokens(self) -> Lengths:
        """Return the tokens of each target sentence, its end included."""
        return self._lengths(None)[1] + END

    def batch(self, indices: Indices) -> Batch:
        """Return the pairs at these places among those to score."""
        return collate(self.split, indices if self.pairs is None else self.pairs[indices])

    def batches(self, sentences: int | None = None) -> list[Indices]:
        """Return the batches of all or the first `sentences`, on any number of processes."""
        source, target = self._lengths(sentences)
        longest = int(np.maximum(source, target).max()) + END
        return batch_by_length(source, target, max(self.tokens_per_batch, longest))

    def share(self, rank: int, size: int, sentences: int | None = None) -> list[Indices]:
        """Return the batches of `rank` among `size`: equal work for all, the longest first."""
        source, target = self._lengths(sentences)
        batches = self.batches(sentences)
        steps = [int(np.maximum(source[b], target[b]).max()) + END for b in batches]
        work = [n * (len(b) + ROWS_OF_A_STEP) for n, b in zip(steps, batches, strict=True)]
        shares: list[list[Indices]] = [[] for _ in range(size)]
        loads = [0] * size
        for number in sorted(range(len(batches)), key=lambda n: -work[n]):
            least = loads.index(min(loads))
            shares[least].append(batches[number])
            loads[least] += work[number]
        return shares[rank]

    def _lengths(self, sentences: int | None) -> tuple[Lengths, Lengths]:
        source, target = self.split.source_lengths, self.split.target_lengths
        if self.pairs is not None:
            source, target = source[self.pairs], target[self.pairs]
        return source[:sentences], target[:sentences]


def spread_evenly(pairs: int, wanted: int) -> Indices:
    """Return the numbers of `wanted` of `pairs`, or of all, at equal distances."""
    count = min(pairs, wanted)
    return np.arange(count, dtype=np.int64) * pairs // max(1, count)


@torch.inference_mode()
def sentence_losses(
    model: TransformerModel, examination: EvaluationSplit, comm: Comm
) -> list[float]:
    """Return -log p of every target sentence, in the order of the split."""
    mine: dict[int, float] = {}
    for indices in examination.share(comm.world.rank, comm.world.size):
        batch = examination.batch(indices).to(torch.device(comm.world.device))
        losses = token_losses(model, batch.source, batch.target_in, batch.target_out)
        mine.update(zip(indices.tolist(), losses.double().tolist(), strict=True))
    found = from_all(comm, mine, float)
    return [found[index] for index in range(len(examination))]


def translations(
    model: TransformerModel,
    examination: EvaluationSplit,
    comm: Comm,
    sentences: int | None = None,
) -> list[str]:
    """Return the model's translations of all or the first `sentences`, in their order."""
    mine: dict[int, list[int]] = {}
    for indices in examination.share(comm.world.rank, comm.world.size, sentences):
        batch = examination.batch(indices).to(torch.device(comm.world.device))
        found = search([model], batch.source, examination.decoding)
        for index, hypotheses in zip(indices.tolist(), found, strict=True):
            mine[index] = list(hypotheses[0].ids)
    ids = from_all(comm, mine, list[int])
    return examination.tokenizer.decode([ids[index] for index in sorted(ids)])


def loss_per_token(losses: Sequence[float], examination: EvaluationSplit) -> tuple[float, int]:
    """Return the mean loss per target token, ends included, and the number of tokens."""
    tokens = int(examination.target_tokens.sum(dtype=np.int64))
    return sum(losses) / tokens, tokens


def from_all(comm: Comm, mine: dict[int, V], kind: type[V]) -> dict[int, V]:
    """Return the parts of all processes in one dictionary."""
    # Not JSON, which cannot hold a loss that is not finite.
    decoder = msgspec.msgpack.Decoder(dict[int, kind])  # type: ignore[valid-type]
    parts = [decoder.decode(part) for part in comm.gather_bytes(msgspec.msgpack.encode(mine))]
    return {index: value for part in parts for index, value in part.items()}


@dataclass(frozen=True)
class Scores:
    """The results of a validation."""

    loss: float
    target_tokens: int
    sentences: int
    empty: int
    seconds: float
    clean_training_loss: float
    repeating: int = -1
    found: Bleu | None = None
    chrf: float = -1.0
    samples: tuple[Sample, ...] = ()

    @property
    def bleu(self) -> float:
        """Return BLEU, or -1 if the settings do not ask for it."""
        return self.found.score if self.found else -1.0


@dataclass(frozen=True)
class Evaluator:
    """Scores the model during training, and on the test set at the end."""

    model: TransformerModel
    comm: Comm
    run: Path
    valid: EvaluationSplit
    training: EvaluationSplit
    test: EvaluationSplit | None
    bleu: bool
    samples: int
    compiling: Compiling = field(default_factory=Compiling)

    def validate(self, step: int) -> Scores:
        """Score the model on the validation set and keep some translations as samples.

        Without BLEU it translates only those. It also scores a sample of the training set in
        the same way, so that the two losses can be compared.
        """
        with self.compiling.paused():
            return self._validate(step)

    def _validate(self, step: int) -> Scores:
        began = time.perf_counter()
        self.model.eval()
        losses = sentence_losses(self.model, self.valid, self.comm)
        loss, tokens = loss_per_token(losses, self.valid)
        learnt = sentence_losses(self.model, self.training, self.comm)
        if self.comm.world.leads:
            write_losses(self.run, step, losses, self.valid.target_tokens)
        translated: list[str] = []
        if self.bleu or self.samples:
            wanted = None if self.bleu else self.samples
            translated = translations(self.model, self.valid, self.comm, wanted)
        scored, repeating, chrf = None, -1, -1.0
        if self.bleu:
            references = self.valid.split.target_text()
            scored = score_bleu(translated, references)
            chrf = score_chrf(translated, references)
            repeating = count_repeating(translated, references)
        samples = self._keep_samples(step, translated)
        self.model.train()
        return Scores(
            loss=loss,
            target_tokens=tokens,
            sentences=len(self.valid),
            empty=sum(not line for line in translated) if scored else 0,
            seconds=time.perf_counter() - began,
            clean_training_loss=loss_per_token(learnt, self.training)[0],
            repeating=repeating,
            found=scored,
            chrf=chrf,
            samples=samples,
        )

    def event(self, scores: Scores, step: int, *, best: bool) -> Validated:
        """Return the event with these `scores`."""
        return Validated(
            time=time.time(),
            step=step,
            loss=scores.loss,
            sentences=scores.sentences,
            target_tokens=scores.target_tokens,
            seconds=scores.seconds,
            best=best,
            empty=scores.empty,
            samples=scores.samples,
            clean_training_loss=scores.clean_training_loss,
            repeating=scores.repeating,
            chrf=scores.chrf,
            **(_fields(scores.found) if scores.found else {}),
        )

    def score_test(self, step: int) -> tuple[Tested | None, list[str]]:
        """Score the model on the test set, if there is one; also return its translations."""
        if self.test is None:
            return None, []
        began = time.perf_counter()
        self.model.eval()
        with self.compiling.paused():
            translated = translations(self.model, self.test, self.comm)
        references = self.test.split.target_text()
        scored = score_bleu(translated, references)
        tested = Tested(
            time=time.time(),
            step=step,
            sentences=len(translated),
            seconds=time.perf_counter() - began,
            empty=sum(not line for line in translated),
            chrf=score_chrf(translated, references),
            **_fields(scored),
        )
        return tested, translated

    def _keep_samples(self, step: int, translated: list[str]) -> tuple[Sample, ...]:
        """Write the first translations to a file; return them on the leading process."""
        if not (self.samples and self.comm.world.leads):
            return ()
        rows = zip(
            self.valid.split.source_text()[: self.samples],
            self.valid.split.target_text()[: self.samples],
            translated[: self.samples],
            strict=True,
        )
        samples = tuple(Sample(*(_one_line(cell) for cell in row)) for row in rows)
        lines = [f"{s.source}\t{s.reference}\t{s.translation}\n" for s in samples]
        path = RunDirectory(self.run).sample(step)
        make_place(path.parent)
        atomic.write_text(path, "".join(lines))
        return samples


def _fields(scored: Bleu) -> dict[str, Any]:
    """Return the fields of an event that hold BLEU."""
    return {
        "bleu": scored.score,
        "bleu_signature": scored.signature,
        "bleu_low": scored.low,
        "bleu_high": scored.high,
        "translation_length": scored.translation_length,
        "reference_length": scored.reference_length,
    }


def _one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")
