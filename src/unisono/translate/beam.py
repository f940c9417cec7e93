"""Beam search over a batch of sentences.

Shapes: B sentences still being translated, W beams a sentence, R = B * W rows, S source
positions, T tokens so far, V vocabulary. Row b * W + w is beam w of sentence b.

A sentence is done when no longer translation can beat its best one, when as many hypotheses
have ended as there are beams, or at its limit of length, where every beam must end. It then
leaves the batch. The result for a sentence does not depend on the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID
from unisono.translate.ensemble import DecoderStates, NextIds, start_decoding
from unisono.translate.settings import Decoding


@dataclass(frozen=True)
class Hypothesis:
    """A translation as ids, without begin and end, and its score as `Decoding` defines it."""

    ids: tuple[int, ...]
    score: float


@dataclass
class _Sentence:
    """A sentence being translated: its place in the batch, its limit, its ended hypotheses."""

    place: int
    limit: int
    ended: list[Hypothesis] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Beams:
    """The hypotheses that have not ended."""

    ids: Tensor  # (R, T), begin first
    scores: Tensor  # (B, W), sums of log-probabilities, best first
    states: DecoderStates


@dataclass(frozen=True, eq=False)
class _Choice:
    """The best ways to continue the beams, or to end them."""

    rows: Tensor  # (B, W), the row each comes from
    ids: Tensor  # (B, W), the next id, never the end
    scores: Tensor  # (B, W), best first
    ends: Tensor  # (B, W before), the score if that beam ends here; -inf if it is too low


@torch.inference_mode()
def search(
    models: Sequence[TransformerModel], source: Tensor, decoding: Decoding
) -> list[list[Hypothesis]]:
    """Return, for each row of `source` (B, S), its hypotheses, best first, at least one.

    Several models search as an ensemble. Rows of `source` end with the end id and are padded
    to the right. The models must be in evaluation mode. Only the first hypothesis is certain
    to be the best that the search met: it does not go on to improve the others.
    """
    limits = _limits(source, decoding)
    sentences = [_Sentence(place, limit) for place, limit in enumerate(limits)]
    found: list[list[Hypothesis]] = [[] for _ in sentences]
    beams = _Beams(
        ids=torch.full((len(limits), 1), BEGIN_ID, device=source.device),
        scores=torch.zeros(len(limits), 1, device=source.device),
        states=start_decoding(models, source),
    )
    while sentences:
        length = beams.ids.size(1) - 1
        best, states = beams.states.step(beams.ids[:, -1], decoding.beam)
        at_limit = [length == sentence.limit for sentence in sentences]
        choice = _choose(best, beams.scores, decoding.beam, at_limit)
        _collect(sentences, choice.ends, beams.ids, decoding)
        going = _going(sentences, choice.scores[:, 0].tolist(), length, decoding)
        for sentence in sentences:
            found[sentence.place] = sentence.ended
        beams = _advance(beams, choice, states, going)
        sentences = [sentences[index] for index in going]
    return [_best_first(ended, decoding.beam) for ended in found]


def _limits(source: Tensor, decoding: Decoding) -> list[int]:
    lengths = ((source != PADDING_ID) & (source != END_ID)).sum(1).tolist()
    return [int(decoding.max_ratio * length) + decoding.max_extra for length in lengths]


def _choose(best: NextIds, scores: Tensor, width: int, at_limit: list[bool]) -> _Choice:
    """Return the `width` best continuations, and the ends that can compete with them."""
    sentences, before = scores.shape
    ends = scores + best.end.view(sentences, before)
    totals = (scores.view(-1, 1) + best.logs).view(sentences, -1)
    if any(at_limit):
        totals[torch.tensor(at_limit, device=totals.device)] = -torch.inf
    going_on, choices = totals.topk(min(width, totals.size(1)))
    # Only the best `width` of all continuations and ends count.
    everything = torch.cat([going_on, ends], dim=1)
    worst = everything.topk(min(width, everything.size(1))).values[:, -1:]
    first_rows = torch.arange(0, sentences * before, before, device=scores.device)[:, None]
    return _Choice(
        rows=choices // best.ids.size(1) + first_rows,
        ids=best.ids.view(sentences, -1).gather(1, choices),
        scores=going_on,
        ends=ends.masked_fill(ends < worst, -torch.inf),
    )


def _collect(sentences: list[_Sentence], ends: Tensor, ids: Tensor, decoding: Decoding) -> None:
    """Add the beams that end here to the hypotheses of their sentences."""
    length, width = ids.size(1) - 1, ends.size(1)
    places = (ends > -torch.inf).nonzero()
    if not places.size(0):
        return
    rows = (places[:, 0] * width + places[:, 1]).tolist()
    penalty = _penalty(length, decoding)
    for row, score, ended in zip(
        rows, ends.flatten()[rows].tolist(), ids[rows, 1:].tolist(), strict=True
    ):
        sentences[row // width].ended.append(Hypothesis(tuple(ended), score / penalty))


def _going(
    sentences: list[_Sentence], best: list[float], length: int, decoding: Decoding
) -> list[int]:
    """Return the sentences to continue, given the `best` score of each one's open beams."""
    going = []
    for index, (sentence, score) in enumerate(zip(sentences, best, strict=True)):
        if length >= sentence.limit or len(sentence.ended) >= decoding.beam:
            continue
        # Scores only fall, so this is a bound for every longer translation.
        bound = score / _penalty(sentence.limit, decoding)
        if all(hypothesis.score < bound for hypothesis in sentence.ended):
            going.append(index)
    return going


def _advance(beams: _Beams, choice: _Choice, states: DecoderStates, going: list[int]) -> _Beams:
    """Return the beams of the sentences that continue, each with its next id."""
    rows, ids, scores, kept = choice.rows, choice.ids, choice.scores, None
    if len(going) < rows.size(0):
        kept = torch.tensor(going, dtype=torch.long, device=rows.device)
        rows, ids, scores = (part.index_select(0, kept) for part in (rows, ids, scores))
    rows = rows.flatten()
    longer = torch.cat([beams.ids.index_select(0, rows), ids.view(-1, 1)], dim=1)
    return _Beams(longer, scores, states.select(rows, kept))


def _penalty(length: int, decoding: Decoding) -> float:
    return float(((5 + length) / 6) ** decoding.length_penalty)


def _best_first(ended: list[Hypothesis], beam: int) -> list[Hypothesis]:
    best = sorted(ended, key=lambda hypothesis: hypothesis.score, reverse=True)[:beam]
    # If the model yields NaN, no beam ends, not even at the limit.
    return best or [Hypothesis((), -math.inf)]
