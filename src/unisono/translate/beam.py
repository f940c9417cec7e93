"""Beam search over a batch of sentences.

Shapes: B sentences still being translated, W beams a sentence, R = B * W rows, S source
positions, T words so far, V vocabulary. Row b * W + w is beam w of sentence b.

A sentence is done when no longer translation can beat its best one, when as many have ended
as there are beams, or at its own limit of length, where every beam must end. It then leaves
the batch. What is found for a sentence does not depend on its neighbours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID
from unisono.translate.ensemble import NextWords, Reading, start_reading
from unisono.translate.settings import Decoding


@dataclass(frozen=True)
class Hypothesis:
    """A translation as ids, without begin and end, and its score as `Decoding` defines it."""

    ids: tuple[int, ...]
    score: float


@dataclass
class _Sentence:
    """A sentence being translated: its place in the batch, its limit, what has ended."""

    place: int
    limit: int
    ended: list[Hypothesis] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Beams:
    """The prefixes that have not ended."""

    words: Tensor  # (R, T), begin first
    scores: Tensor  # (B, W), sums of log-probabilities, best first
    reading: Reading


@dataclass(frozen=True, eq=False)
class _Choice:
    """Where the beams can go next."""

    rows: Tensor  # (B, W), each the row it comes from
    words: Tensor  # (B, W), the next word, never the end
    scores: Tensor  # (B, W), best first
    ends: Tensor  # (B, W before), scores if that beam ended here; -inf if that is too bad


@torch.inference_mode()
def search(
    models: Sequence[TransformerModel], source: Tensor, decoding: Decoding
) -> list[list[Hypothesis]]:
    """Return, for each row of `source` (B, S), its hypotheses, best first, at least one.

    Several models search as one, see `ensemble`. Rows of `source` end with the end id and are
    padded to the right. The models must be in evaluation mode. Only the first hypothesis is
    sure to be the best that the beams met: a sentence is not searched on to improve the others.
    """
    limits = _limits(source, decoding)
    sentences = [_Sentence(place, limit) for place, limit in enumerate(limits)]
    found: list[list[Hypothesis]] = [[] for _ in sentences]
    beams = _Beams(
        words=torch.full((len(limits), 1), BEGIN_ID, device=source.device),
        scores=torch.zeros(len(limits), 1, device=source.device),
        reading=start_reading(models, source),
    )
    while sentences:
        length = beams.words.size(1) - 1
        best, reading = beams.reading.read(beams.words[:, -1], decoding.beam)
        at_limit = [length == sentence.limit for sentence in sentences]
        choice = _choose(best, beams.scores, decoding.beam, at_limit)
        _collect(sentences, choice.ends, beams.words, decoding)
        going = _going(sentences, choice.scores[:, 0].tolist(), length, decoding)
        for sentence in sentences:
            found[sentence.place] = sentence.ended
        beams = _advance(beams, choice, reading, going)
        sentences = [sentences[index] for index in going]
    return [_best_first(ended, decoding.beam) for ended in found]


def _limits(source: Tensor, decoding: Decoding) -> list[int]:
    lengths = ((source != PADDING_ID) & (source != END_ID)).sum(1).tolist()
    return [int(decoding.max_ratio * length) + decoding.max_extra for length in lengths]


def _choose(best: NextWords, scores: Tensor, width: int, at_limit: list[bool]) -> _Choice:
    """Return the `width` best ways to go on, and the ends that can compete with them."""
    sentences, before = scores.shape
    ends = scores + best.end.view(sentences, before)
    totals = (scores.view(-1, 1) + best.logs).view(sentences, -1)
    if any(at_limit):
        totals[torch.tensor(at_limit, device=totals.device)] = -torch.inf
    going_on, choices = totals.topk(min(width, totals.size(1)))
    # Of everything possible only the best `width` count, and an end is one of them or none.
    everything = torch.cat([going_on, ends], dim=1)
    worst = everything.topk(min(width, everything.size(1))).values[:, -1:]
    first_rows = torch.arange(0, sentences * before, before, device=scores.device)[:, None]
    return _Choice(
        rows=choices // best.words.size(1) + first_rows,
        words=best.words.view(sentences, -1).gather(1, choices),
        scores=going_on,
        ends=ends.masked_fill(ends < worst, -torch.inf),
    )


def _collect(
    sentences: list[_Sentence], ends: Tensor, words: Tensor, decoding: Decoding
) -> None:
    """Add the beams that end here to what their sentences have found."""
    length, width = words.size(1) - 1, ends.size(1)
    places = (ends > -torch.inf).nonzero()
    if not places.size(0):
        return
    rows = (places[:, 0] * width + places[:, 1]).tolist()
    penalty = _penalty(length, decoding)
    for row, score, ids in zip(
        rows, ends.flatten()[rows].tolist(), words[rows, 1:].tolist(), strict=True
    ):
        sentences[row // width].ended.append(Hypothesis(tuple(ids), score / penalty))


def _going(
    sentences: list[_Sentence], best: list[float], length: int, decoding: Decoding
) -> list[int]:
    """Return which sentences go on, given the `best` score of each one's open beams."""
    going = []
    for index, (sentence, score) in enumerate(zip(sentences, best, strict=True)):
        if length >= sentence.limit or len(sentence.ended) >= decoding.beam:
            continue
        # Scores only fall, so this is more than any longer translation can reach.
        hope = score / _penalty(sentence.limit, decoding)
        if all(hypothesis.score < hope for hypothesis in sentence.ended):
            going.append(index)
    return going


def _advance(beams: _Beams, choice: _Choice, reading: Reading, going: list[int]) -> _Beams:
    """Return the beams of the sentences that go on, each with its next word."""
    rows, words, scores, kept = choice.rows, choice.words, choice.scores, None
    if len(going) < rows.size(0):
        kept = torch.tensor(going, dtype=torch.long, device=rows.device)
        rows, words, scores = (part.index_select(0, kept) for part in (rows, words, scores))
    rows = rows.flatten()
    longer = torch.cat([beams.words.index_select(0, rows), words.view(-1, 1)], dim=1)
    return _Beams(longer, scores, reading.select(rows, kept))


def _penalty(length: int, decoding: Decoding) -> float:
    return float(((5 + length) / 6) ** decoding.length_penalty)


def _best_first(ended: list[Hypothesis], beam: int) -> list[Hypothesis]:
    best = sorted(ended, key=lambda hypothesis: hypothesis.score, reverse=True)[:beam]
    # Not even at the limit does a beam end if the model no longer yields numbers.
    return best or [Hypothesis((), -math.inf)]
