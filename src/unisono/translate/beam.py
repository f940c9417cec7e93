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
    """A translation as ids, without begin and end, and its score as `Decoding` defines it.

    `log_probability` is that of all its ids and of the end.
    """

    ids: tuple[int, ...]
    score: float
    log_probability: float


@dataclass
class _Sentence:
    """A sentence being translated: its place in the batch, its limit, its ended hypotheses."""

    place: int
    limit: int
    prefix: Sequence[int] = ()
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
    models: Sequence[TransformerModel],
    source: Tensor,
    decoding: Decoding,
    prefixes: Sequence[Sequence[int]] = (),
    best: int = 1,
) -> list[list[Hypothesis]]:
    """Return, for each row of `source` (B, S), its hypotheses, best first, at least one.

    Several models search as an ensemble. Rows of `source` end with the end id and are padded
    to the right. The models must be in evaluation mode. Only the first `best` hypotheses are
    certain to be the best that the search met: it does not go on to improve the others. A
    translation begins with the ids of its prefix, if `prefixes` has one for each row.
    """
    limits = length_limits(source, decoding, prefixes)
    sentences = [
        _Sentence(place, limit, prefixes[place] if prefixes else ())
        for place, limit in enumerate(limits)
    ]
    found: list[list[Hypothesis]] = [[] for _ in sentences]
    beams = _Beams(
        ids=torch.full((len(limits), 1), BEGIN_ID, device=source.device),
        scores=torch.zeros(len(limits), 1, device=source.device),
        states=start_decoding(models, source),
    )
    while sentences:
        length = beams.ids.size(1) - 1
        forced = forced_ids([s.prefix for s in sentences], length, beams.scores)
        following, states = beams.states.step(beams.ids[:, -1], decoding.beam, forced)
        at_limit = [length == sentence.limit for sentence in sentences]
        choice = _choose(following, beams.scores, decoding.beam, at_limit)
        _collect(sentences, choice.ends, beams.ids, decoding)
        going = _going(sentences, choice.scores[:, 0].tolist(), length, decoding, best)
        for sentence in sentences:
            found[sentence.place] = sentence.ended
        beams = _advance(beams, choice, states, going)
        sentences = [sentences[index] for index in going]
    return [_best_first(ended, decoding.beam) for ended in found]


def length_limits(
    source: Tensor, decoding: Decoding, prefixes: Sequence[Sequence[int]] = ()
) -> list[int]:
    """Return how many ids the translation of each row (B, S) may have, after its prefix."""
    lengths = ((source != PADDING_ID) & (source != END_ID)).sum(1).tolist()
    limits = [int(decoding.max_ratio * length) + decoding.max_extra for length in lengths]
    given = map(len, prefixes) if prefixes else [0] * len(limits)
    return [limit + before for limit, before in zip(limits, given, strict=True)]


def forced_ids(prefixes: Sequence[Sequence[int]], length: int, scores: Tensor) -> Tensor | None:
    """Return the id that must follow in each row (R,) of `scores` (B, W), -1 where any may."""
    ids = [prefix[length] if length < len(prefix) else -1 for prefix in prefixes]
    if max(ids, default=-1) < 0:
        return None
    return torch.tensor(ids, device=scores.device).repeat_interleave(scores.size(1))


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
    rows = places[:, 0] * width + places[:, 1]
    scores, endings = ends.flatten().index_select(0, rows), ids.index_select(0, rows)[:, 1:]
    penalty = length_penalty(length, decoding)
    for row, score, ended in zip(rows.tolist(), scores.tolist(), endings.tolist(), strict=True):
        hypothesis = Hypothesis(tuple(ended), score / penalty, score)
        sentences[row // width].ended.append(hypothesis)


def _going(
    sentences: list[_Sentence], open_: list[float], length: int, decoding: Decoding, best: int
) -> list[int]:
    """Return the sentences to continue, given the best score of each one's open beams."""
    going = []
    for index, (sentence, score) in enumerate(zip(sentences, open_, strict=True)):
        if length >= sentence.limit or len(sentence.ended) >= decoding.beam:
            continue
        # Scores only fall, so this is a bound for every longer translation.
        bound = score / length_penalty(sentence.limit, decoding)
        if sum(hypothesis.score >= bound for hypothesis in sentence.ended) < best:
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


def length_penalty(length: int, decoding: Decoding) -> float:
    """Return by what to divide the log-probability of a translation of `length` ids."""
    # The other form counts the end, too.
    counted = (5 + length) / 6 if decoding.length_penalty_form == "gnmt" else length + 1
    return float(counted**decoding.length_penalty)


def _best_first(ended: list[Hypothesis], beam: int) -> list[Hypothesis]:
    best = sorted(ended, key=lambda hypothesis: hypothesis.score, reverse=True)[:beam]
    # If the model yields NaN, no beam ends, not even at the limit.
    return best or [Hypothesis((), -math.inf, -math.inf)]
