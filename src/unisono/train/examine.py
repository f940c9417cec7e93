"""Validations and the final test: scores, samples, and the events that tell of them."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unisono import atomic
from unisono.comm.protocol import Comm
from unisono.models.transformer import TransformerModel
from unisono.records.events import Sample, Tested, Validated
from unisono.records.layout import RunDirectory
from unisono.records.repetition import count_repeating
from unisono.records.sentence_losses import write_losses
from unisono.score import Bleu, score_bleu
from unisono.train.compiling import Compiling
from unisono.train.validate import (
    Examination,
    loss_per_token,
    sentence_losses,
    translations,
)


@dataclass(frozen=True)
class Scores:
    """What a validation found."""

    loss: float
    target_tokens: int
    sentences: int
    empty: int
    seconds: float
    clean_training_loss: float
    repeating: int = -1
    found: Bleu | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def bleu(self) -> float:
        """Return BLEU, or -1 if it was not asked for."""
        return self.found.score if self.found else -1.0


@dataclass(frozen=True)
class Examiner:
    """Scores the model while it trains, and once when it is done."""

    model: TransformerModel
    comm: Comm
    run: Path
    valid: Examination
    training: Examination
    test: Examination | None
    bleu: bool
    samples: int
    compiling: Compiling = field(default_factory=Compiling)

    def validate(self, step: int) -> Scores:
        """Score the model on the validation set; keep some translations for reading.

        Without BLEU no more than those are translated. A sample of the training set is looked
        at in the same way, so that the two losses can be compared.
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
        scored, repeating = None, -1
        if self.bleu:
            references = self.valid.split.target_text()
            scored = score_bleu(translated, references)
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
            samples=samples,
        )

    def event(self, scores: Scores, step: int, *, best: bool) -> Validated:
        """Return the event that tells of `scores`."""
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
            **(_fields(scores.found) if scores.found else {}),
        )

    def score_test(self, step: int) -> Tested | None:
        """Score the model on the test set, if there is one."""
        if self.test is None:
            return None
        began = time.perf_counter()
        self.model.eval()
        with self.compiling.paused():
            translated = translations(self.model, self.test, self.comm)
        scored = score_bleu(translated, self.test.split.target_text())
        return Tested(
            time=time.time(),
            step=step,
            sentences=len(translated),
            seconds=time.perf_counter() - began,
            empty=sum(not line for line in translated),
            **_fields(scored),
        )

    def _keep_samples(self, step: int, translated: list[str]) -> tuple[Sample, ...]:
        """Write the first translations into a file; return them on the leading process."""
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
        path.parent.mkdir(exist_ok=True)
        atomic.write_text(path, "".join(lines))
        return samples


def _fields(scored: Bleu) -> dict[str, Any]:
    """Return the fields of an event that tell of BLEU."""
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
