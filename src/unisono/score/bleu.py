"""BLEU as everybody reports it: sacreBLEU's defaults (cased, 13a, exponential smoothing)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from unisono.errors import DataError
from unisono.score.resample import (
    BOOTSTRAP_SEED,
    RESAMPLES,
    Numbers,
    percentiles,
    resampled_sums,
)

NGRAM_ORDER = 4


@dataclass(frozen=True)
class Bleu:
    """A score from 0 to 100, and the signature that says how it was computed.

    `low` and `high` bound its 95 % confidence interval. `precisions` are those of 1- to 4-grams
    in percent; lengths count tokens.
    """

    score: float
    low: float
    high: float
    signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    translation_length: int
    reference_length: int


def score_bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Score the translations of a set against one reference each."""
    check_counts(translations, references)
    counts = bleu_counts(translations, references)
    result = _score(counts.sum(axis=0))
    low, high = percentiles(np.concatenate([*map(bleu_scores, resampled_sums(counts))]))
    return Bleu(
        score=float(result.score),
        low=low,
        high=high,
        signature=sacrebleu_signature(BLEU),
        precisions=tuple(map(float, result.precisions)),
        brevity_penalty=float(result.bp),
        translation_length=int(result.sys_len),
        reference_length=int(result.ref_len),
    )


def check_counts(translations: Sequence[str], references: Sequence[str]) -> None:
    """Raise an error unless there is one translation for each reference, and at least one."""
    if len(translations) != len(references):
        raise DataError(
            f"{len(translations)} translations for {len(references)} references",
            fix="give one translation per reference, in the same order",
        )
    if not references:
        raise DataError("there is nothing to score", fix="give at least one sentence")


def bleu_counts(
    translations: Sequence[str], references: Sequence[str]
) -> Numbers:  # (sentences, 2 + 2 NGRAM_ORDER)
    """Return for each sentence both lengths, the matching n-grams, and all n-grams."""
    # `effective_order` does not change the counts, but without it sacreBLEU warns; `force`
    # silences a warning about text that looks tokenized.
    metric = BLEU(force=True, effective_order=True)
    rows = np.empty((len(references), 2 + 2 * NGRAM_ORDER))
    for row, translation, reference in zip(rows, translations, references, strict=True):
        one = metric.sentence_score(translation, [reference])
        row[:] = (one.sys_len, one.ref_len, *one.counts, *one.totals)
    return rows


def _score(sums: Numbers) -> BLEUScore:
    return BLEU.compute_bleu(
        correct=sums[2 : 2 + NGRAM_ORDER].astype(int).tolist(),
        total=sums[2 + NGRAM_ORDER :].astype(int).tolist(),
        sys_len=int(sums[0]),
        ref_len=int(sums[1]),
        smooth_method="exp",
    )


def bleu_scores(sums: Numbers) -> Numbers:
    """Return the score of each row of summed counts."""
    return np.array([float(_score(row).score) for row in sums])


def sacrebleu_signature(metric: Callable[[], Any]) -> str:
    """Return the signature of one of sacreBLEU's metrics, for one reference and resamples."""
    one = metric()
    # So that it knows the number of references; a full sentence, or BLEU warns.
    one.corpus_score(["a b c d"], [["a b c d"]])
    one.n_bootstrap, one.seed = RESAMPLES, BOOTSTRAP_SEED
    return str(one.get_signature())
