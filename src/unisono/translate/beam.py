"""Beam search over a batch of sentences.

Shapes: B sentences still being translated, W beams a sentence, R = B * W rows, S source
positions, T tokens so far, V vocabulary. Row b * W + w is beam w of sentence b.

A sentence is done when no longer translation can beat its best one, when as many hypotheses
have ended as there are beams, or at its limit of length, where every beam must end. It then
leaves the batch, and others may take its place. The result for a sentence does not depend on
the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID
from unisono.translate.ensemble import DecoderStates, NextIds, start_decoding, step_together
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
    """A sentence being translated: whose it is, its limit, its ended hypotheses."""

    key: int
    limit: int
    prefix: Sequence[int] = ()
    ended: list[Hypothesis] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Beams:
    """Hypotheses that have not ended, all of the same length."""

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


@dataclass(frozen=True, eq=False)
class _Group:
    """Sentences that began together, and their beams."""

    sentences: list[_Sentence]
    beams: _Beams

    @property
    def length(self) -> int:
        """Return how many ids each hypothesis has so far."""
        return self.beams.ids.size(1) - 1


class BeamSearch:
    """Sentences that are translated together; others can join them at any time.

    Several models search as an ensemble. They must be in evaluation mode. Only the first `best`
    hypotheses of a sentence are certain to be the best that the search met: it does not go on
    to improve the others.
    """

    def __init__(
        self, models: Sequence[TransformerModel], decoding: Decoding, best: int = 1
    ) -> None:
        self._models, self._decoding, self._best = models, decoding, best
        self._groups: list[_Group] = []

    def __len__(self) -> int:
        return sum(len(group.sentences) for group in self._groups)

    @torch.inference_mode()
    def add(
        self,
        source: Tensor,
        keys: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> None:
        """Let the rows of `source` (B, S) join, each under its key.

        They end with the end id and are padded to the right. A translation begins with the ids
        of its prefix, if `prefixes` has one for each row.
        """
        limits = length_limits(source, self._decoding, prefixes)
        starts: Sequence[Sequence[int]] = prefixes or [()] * len(limits)
        states = start_decoding(self._models, source)
        if self._groups:  # one buffer for all: it is large
            states = replace(states, buffer=self._groups[0].beams.states.buffer)
        beams = _Beams(
            ids=torch.full((len(limits), 1), BEGIN_ID, device=source.device),
            scores=torch.zeros(len(limits), 1, device=source.device),
            states=states,
        )
        sentences = [_Sentence(*one) for one in zip(keys, limits, starts, strict=True)]
        self._groups.append(_Group(sentences, beams))

    @torch.inference_mode()
    def step(self) -> dict[int, list[Hypothesis]]:
        """Decode one more id of each sentence; return the hypotheses of those that are done.

        These leave. The hypotheses of a sentence are sorted, best first; there is at least one.
        """
        groups, found = self._groups, dict[int, list[Hypothesis]]()
        if not groups:
            return found
        following = step_together(
            [group.beams.states for group in groups],
            [group.beams.ids[:, -1] for group in groups],
            self._decoding.beam,
            [_forced_ids(group) for group in groups],
        )
        self._groups = []
        for group, (best, states) in zip(groups, following, strict=True):
            going = self._choose(group, best, states)
            if going is not None:
                self._groups.append(going)
            stay = set() if going is None else {one.key for one in going.sentences}
            for one in group.sentences:
                if one.key not in stay:
                    found[one.key] = _best_first(one.ended, self._decoding.beam)
        return found

    def _choose(self, group: _Group, best: NextIds, states: DecoderStates) -> _Group | None:
        """Return the group one id later without the sentences that are done; None: all are."""
        sentences, beams, length = group.sentences, group.beams, group.length
        at_limit = [length == sentence.limit for sentence in sentences]
        choice = _choose(best, beams.scores, self._decoding.beam, at_limit)
        _collect(sentences, choice.ends, beams.ids, self._decoding)
        open_ = choice.scores[:, 0].tolist()
        going = _going(sentences, open_, length, self._decoding, self._best)
        if not going:
            return None
        return _Group([sentences[n] for n in going], _advance(beams, choice, states, going))


def search(
    models: Sequence[TransformerModel],
    source: Tensor,
    decoding: Decoding,
    prefixes: Sequence[Sequence[int]] = (),
    best: int = 1,
) -> list[list[Hypothesis]]:
    """Return, for each row of `source` (B, S), its hypotheses, as `BeamSearch` finds them."""
    found: dict[int, list[Hypothesis]] = {}
    if source.size(0):
        searching = BeamSearch(models, decoding, best)
        searching.add(source, range(source.size(0)), prefixes)
        while searching:
            found |= searching.step()
    return [found[row] for row in range(source.size(0))]


def length_limits(
    source: Tensor, decoding: Decoding, prefixes: Sequence[Sequence[int]] = ()
) -> list[int]:
    """Return how many ids the translation of each row (B, S) may have, after its prefix."""
    lengths = ((source != PADDING_ID) & (source != END_ID)).sum(1).tolist()
    limits = [int(decoding.max_ratio * length) + decoding.max_extra for length in lengths]
    given = map(len, prefixes) if prefixes else [0] * len(limits)
    return [limit + before for limit, before in zip(limits, given, strict=True)]


def _forced_ids(group: _Group) -> Tensor | None:
    """Return the id that must follow in each row (R,), -1 where any may."""
    length, scores = group.length, group.beams.scores
    prefixes = [sentence.prefix for sentence in group.sentences]
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
