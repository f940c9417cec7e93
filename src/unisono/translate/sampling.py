"""Draw translations at random, and score given ones.

Shapes: B sentences, R rows still being drawn, S source positions, T target positions, V
vocabulary.

Each random number is a hash of the seed, of the key of its row and of its position. So what is
drawn for a line does not depend on batches, workers or other lines, up to rounding.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID
from unisono.translate.beam import Hypothesis, length_limits, length_penalty
from unisono.translate.ensemble import start_decoding
from unisono.translate.settings import Decoding, PieceSampling

Key = tuple[int, ...]


@torch.inference_mode()
def sample(
    models: Sequence[TransformerModel],
    source: Tensor,
    decoding: Decoding,
    sampling: PieceSampling,
    keys: Sequence[Key],
    prefixes: Sequence[Sequence[int]] = (),
) -> list[Hypothesis]:
    """Draw one translation of each row of `source` (B, S); each row has its own key.

    `log_probability` and score are those of the models, without temperature and cuts.
    """
    limits = length_limits(source, decoding, prefixes)
    starts: Sequence[Sequence[int]] = prefixes or [()] * len(limits)
    rows, states = list(range(len(limits))), start_decoding(models, source)
    ids: list[list[int]] = [[] for _ in rows]
    totals = [0.0] * len(rows)
    while rows:
        length = len(ids[rows[0]])
        last = torch.tensor([ids[row][-1] if length else BEGIN_ID for row in rows])
        parts, states = states.decode(last.to(source.device))
        numbers = [uniform(sampling.seed, *keys[row], length) for row in rows]
        chosen, logs = _draw(parts, torch.tensor(numbers, dtype=torch.float64), sampling)
        going = []
        for place, row in enumerate(rows):
            forced = _forced(starts[row], length, limits[row])
            piece = chosen[place] if forced is None else forced
            totals[row] += float(logs[place][piece])
            if piece != END_ID:
                ids[row].append(piece)
                going.append(place)
        kept = torch.tensor(going, dtype=torch.long, device=source.device)
        states = states.select(kept, kept)
        rows = [rows[place] for place in going]
    return [
        Hypothesis(tuple(row), total / length_penalty(len(row), decoding), total)
        for row, total in zip(ids, totals, strict=True)
    ]


def uniform(*key: int) -> float:
    """Return a number in [0, 1) that the integers of the key alone determine."""
    text = ",".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()[:7]) / (1 << 56)


def _forced(prefix: Sequence[int], length: int, limit: int) -> int | None:
    """Return the id that has to follow, if there is no choice."""
    if length < len(prefix):
        return prefix[length]
    return END_ID if length >= limit else None


def _draw(
    parts: Iterable[Tensor], numbers: Tensor, sampling: PieceSampling
) -> tuple[list[int], list[Tensor]]:
    """Return an id for each row (V,) of `parts`, and its log-probabilities."""
    ids: list[int] = []
    rows: list[Tensor] = []
    for logs in parts:
        weights = logs.double() / sampling.temperature
        weights[:, [PADDING_ID, BEGIN_ID]] = -torch.inf
        sums = _cut(weights.softmax(1), sampling).cumsum(1)
        here = numbers[len(ids) : len(ids) + len(logs), None].to(sums.device) * sums[:, -1:]
        found = torch.searchsorted(sums, here, right=True).clamp_(max=logs.size(1) - 1)
        ids += found.flatten().tolist()
        rows += logs.clone()
    return ids, rows


def _cut(weights: Tensor, sampling: PieceSampling) -> Tensor:
    """Return the weights (R, V), with those below the cuts of the settings set to 0."""
    if sampling.top_k and sampling.top_k < weights.size(1):
        lowest = weights.topk(sampling.top_k).values[:, -1:]
        weights = weights.masked_fill(weights < lowest, 0.0)
    if sampling.top_p < 1:
        ordered, order = weights.sort(dim=1, descending=True)
        before = ordered.cumsum(1) - ordered
        beyond = before >= sampling.top_p * weights.sum(1, keepdim=True)
        weights = weights.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), 0.0)
    return weights


@torch.inference_mode()
def given_log_probabilities(
    models: Sequence[TransformerModel], source: Tensor, target: Tensor
) -> list[float]:
    """Return the log-probability of each row of `target` (B, T), which ends with the end id.

    Several models are an ensemble: the mean of their probabilities counts, id by id.
    """
    begin = torch.full((target.size(0), 1), BEGIN_ID, device=target.device)
    before = torch.cat([begin, target[:, :-1]], dim=1)
    losses = torch.stack([_losses(model, source, before, target) for model in models])
    logs = (-losses).logsumexp(0) - math.log(len(models))
    return cast("list[float]", logs.view_as(target).sum(1).tolist())


def _losses(model: TransformerModel, source: Tensor, before: Tensor, target: Tensor) -> Tensor:
    logits = model(source, before).flatten(0, 1)
    ids = target.flatten()
    return F.cross_entropy(logits, ids, ignore_index=PADDING_ID, reduction="none").double()
