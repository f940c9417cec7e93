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
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

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
    """A sentence being translated: whose it is, its limit, its ended hypotheses."""

    key: int
    limit: int
    source_positions: int
    prefix: Sequence[int] = ()
    length: int = 0  # ids so far
    ended: list[Hypothesis] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Beams:
    """The hypotheses that have not ended."""

    ids: Tensor  # (R, T), begin first, but shorter ones after padding
    scores: Tensor  # (B, W), sums of log-probabilities, best first
    states: DecoderStates


@dataclass(frozen=True, eq=False)
class _Choice:
    """The best ways to continue the beams, or to end them."""

    rows: Tensor  # (B, W), the row each comes from
    ids: Tensor  # (B, W), the next id, never the end
    scores: Tensor  # (B, W), best first
    ends: Tensor  # (B, W before), the score if that beam ends here; -inf if it is too low


Found = tuple[int, list[Hypothesis]]


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
        self._sentences: list[_Sentence] = []
        self._beams: _Beams | None = None

    def __len__(self) -> int:
        return len(self._sentences)

    @property
    def source_positions(self) -> int:
        """Return the positions of the longest source."""
        return max((sentence.source_positions for sentence in self._sentences), default=0)

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
        positions = (source != PADDING_ID).sum(1).tolist()
        new = [_Sentence(*one) for one in zip(keys, limits, positions, starts, strict=True)]
        fresh = _Beams(
            ids=torch.full((len(new), 1), BEGIN_ID, device=source.device),
            scores=torch.zeros(len(new), 1, device=source.device),
            states=start_decoding(self._models, source),
        )
        self._beams = _joined(self._beams, fresh) if self._sentences and self._beams else fresh
        self._sentences += new

    @torch.inference_mode()
    def step(self) -> list[Found]:
        """Decode one more id of each sentence; return those that are done, which leave.

        The hypotheses of each are sorted, best first; there is at least one.
        """
        beams, sentences = self._beams, self._sentences
        if beams is None or not sentences:
            return []
        forced = _forced_ids(sentences, beams.scores)
        following, states = beams.states.step(beams.ids[:, -1], self._decoding.beam, forced)
        at_limit = [sentence.length == sentence.limit for sentence in sentences]
        choice = _choose(following, beams.scores, self._decoding.beam, at_limit)
        _collect(sentences, choice.ends, beams.ids, self._decoding)
        open_ = choice.scores[:, 0].tolist()
        going = _going(sentences, open_, self._decoding, self._best)
        kept = [sentences[index] for index in going]
        for sentence in kept:
            sentence.length += 1
        self._sentences = kept
        self._beams = _advance(beams, choice, states, going, kept)
        stay = set(going)
        return [
            (sentence.key, _best_first(sentence.ended, self._decoding.beam))
            for index, sentence in enumerate(sentences)
            if index not in stay
        ]


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


def _forced_ids(sentences: Sequence[_Sentence], scores: Tensor) -> Tensor | None:
    """Return the id that must follow in each row (R,) of `scores` (B, W), -1 where any may."""
    ids = [s.prefix[s.length] if s.length < len(s.prefix) else -1 for s in sentences]
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
    width = ends.size(1)
    places = (ends > -torch.inf).nonzero()
    if not places.size(0):
        return
    rows = places[:, 0] * width + places[:, 1]
    scores, endings = ends.flatten().index_select(0, rows), ids.index_select(0, rows)
    for row, score, ended in zip(rows.tolist(), scores.tolist(), endings.tolist(), strict=True):
        sentence = sentences[row // width]
        found = tuple(ended[len(ended) - sentence.length :])
        penalty = length_penalty(sentence.length, decoding)
        sentence.ended.append(Hypothesis(found, score / penalty, score))


def _going(
    sentences: list[_Sentence], open_: list[float], decoding: Decoding, best: int
) -> list[int]:
    """Return the sentences to continue, given the best score of each one's open beams."""
    going = []
    for index, (sentence, score) in enumerate(zip(sentences, open_, strict=True)):
        if sentence.length >= sentence.limit or len(sentence.ended) >= decoding.beam:
            continue
        # Scores only fall, so this is a bound for every longer translation.
        bound = score / length_penalty(sentence.limit, decoding)
        if sum(hypothesis.score >= bound for hypothesis in sentence.ended) < best:
            going.append(index)
    return going


def _advance(
    beams: _Beams,
    choice: _Choice,
    states: DecoderStates,
    going: list[int],
    sentences: list[_Sentence],
) -> _Beams | None:
    """Return the beams of the sentences that continue, each with its next id."""
    if not going:
        return None
    rows, ids, scores, kept = choice.rows, choice.ids, choice.scores, None
    before = beams.ids
    if len(going) < rows.size(0):
        kept = torch.tensor(going, dtype=torch.long, device=rows.device)
        rows, ids, scores = (part.index_select(0, kept) for part in (rows, ids, scores))
        columns = max(sentence.length for sentence in sentences)
        states = states.cut(columns, max(sentence.source_positions for sentence in sentences))
        before = before[:, -columns:]
    rows = rows.flatten()
    longer = torch.cat([before.index_select(0, rows), ids.view(-1, 1)], dim=1)
    return _Beams(longer, scores, states.select(rows, kept))


def _joined(running: _Beams, fresh: _Beams) -> _Beams:
    """Return both; the other beams of a fresh sentence can never be chosen."""
    width, columns = running.scores.size(1), running.ids.size(1)
    ids = F.pad(fresh.ids.repeat_interleave(width, 0), (columns - 1, 0))
    scores = F.pad(fresh.scores, (0, width - 1), value=-math.inf)
    return _Beams(
        torch.cat([running.ids, ids]),
        torch.cat([running.scores, scores]),
        running.states.join(fresh.states, width),
    )


def length_penalty(length: int, decoding: Decoding) -> float:
    """Return by what to divide the log-probability of a translation of `length` ids."""
    # The other form counts the end, too.
    counted = (5 + length) / 6 if decoding.length_penalty_form == "gnmt" else length + 1
    return float(counted**decoding.length_penalty)


def _best_first(ended: list[Hypothesis], beam: int) -> list[Hypothesis]:
    best = sorted(ended, key=lambda hypothesis: hypothesis.score, reverse=True)[:beam]
    # If the model yields NaN, no beam ends, not even at the limit.
    return best or [Hypothesis((), -math.inf, -math.inf)]
