"""Ensembles: several models decode together, and their mean probabilities choose the next id.

Shapes: B sentences, R target rows, S source positions, D model width, V vocabulary, N best
ids of a row, C candidates: the columns of a row that may be among the best.

The models may differ in everything but the vocabularies. A single model is an ensemble of one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from unisono.models.attention import DecoderCache, JointCache
from unisono.models.cpu_linear import multiply
from unisono.models.output import Output
from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID

GROUP = 64
SPARE = 3  # candidates beyond those that are wanted: logits in bf16 may put one too low


def best_per_row(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` best of each row of `values` (R, V), best first, and their columns.

    torch's own `topk` takes several times as long on a CPU, because it looks at every number
    one by one. Maxima of groups of columns are cheap, and the `count` best numbers are in the
    `count` groups with the highest maxima.
    """
    columns = values.size(1)
    groups = columns // GROUP
    if values.device.type != "cpu" or groups <= 2 * count:
        best, where = values.topk(count)
        return best, where
    maxima = values[:, : groups * GROUP].unflatten(1, (groups, GROUP)).amax(2)
    starts = maxima.topk(count).indices * GROUP
    inside = (starts[:, :, None] + torch.arange(GROUP)).flatten(1)
    rest = torch.arange(groups * GROUP, columns).expand(values.size(0), -1)
    candidates = torch.cat([inside, rest], dim=1)  # (R, C)
    best, where = values.gather(1, candidates).topk(count)
    return best, candidates.gather(1, where)


# Logits are by far the largest tensors of a search. So many are computed at a time, always in
# the same buffer: allocating costs more than the computation.
LOGITS_AT_ONCE = 4_000_000
GPU_LOGITS_AT_ONCE = 2**26  # 268 MB: fewer, larger kernels


@dataclass(frozen=True, eq=False)
class NextIds:
    """The best next ids of each row, and the end."""

    ids: Tensor  # (R, N), best first; never padding, begin or end
    logs: Tensor  # (R, N), their log-probabilities
    end: Tensor  # (R,), the log-probability of the end


@dataclass(frozen=True, eq=False)
class DecoderStates:
    """The caches of all models for the same target rows."""

    models: Sequence[TransformerModel]
    caches: tuple[Any, ...]  # each a DecoderCache, or a JointCache within `step_together`
    buffer: Tensor  # (models, some rows, V), for logits

    def step(
        self, ids: Tensor, count: int, forced: Tensor | None = None
    ) -> tuple[NextIds, Self]:
        """Decode the next id of each row (R,); return the `count` best ids to follow it.

        Where `forced` (R,) is not negative, that id alone may follow.
        """
        both, states = self._states_after(ids)
        rows, [output, *others] = self.buffer.size(1), [model.output for model in self.models]
        if output.packed is not None and not others and forced is None:
            parts = both[0].split(rows)
            best = [best_by_half_logits(output, part, self.buffer[0], count) for part in parts]
        else:
            logs = self._logs(both)
            if forced is not None:
                logs = map(_only, logs, forced.split(rows))
            best = [_best(part, count) for part in logs]
        return NextIds(*(torch.cat(part) for part in zip(*best, strict=True))), states

    def decode(self, ids: Tensor) -> tuple[Iterator[Tensor], Self]:
        """Decode the next id of each row (R,); return log-probabilities and the new states.

        The former come for some rows (some, V) at a time, always in the same memory.
        """
        both, states = self._states_after(ids)
        return self._logs(both), states

    def _states_after(self, ids: Tensor) -> tuple[list[Tensor], Self]:
        """Return each model's states (R, D) after the next ids (R,), and the new caches."""
        both = [
            _read(model, ids[:, None], cache)
            for model, cache in zip(self.models, self.caches, strict=True)
        ]
        return [x[:, 0] for x, _ in both], replace(self, caches=tuple(c for _, c in both))

    def _logs(self, states: list[Tensor]) -> Iterator[Tensor]:
        outputs = [model.output for model in self.models]
        split = zip(*(x.split(self.buffer.size(1)) for x in states), strict=True)
        return (_mean_logs(outputs, part, self.buffer) for part in split)

    def select(self, rows: Tensor, sentences: Tensor | None) -> Self:
        """Keep these rows, as `DecoderCache.select` does."""
        return replace(self, caches=tuple(c.select(rows, sentences) for c in self.caches))


def step_together(
    groups: Sequence[DecoderStates],
    ids: Sequence[Tensor],
    count: int,
    forced: Sequence[Tensor | None],
) -> list[tuple[NextIds, DecoderStates]]:
    """Do for each group of sentences what `DecoderStates.step` does, all in one go."""
    if len(groups) == 1:
        return [groups[0].step(ids[0], count, forced[0])]
    rows = [part.size(0) for part in ids]
    by_model = zip(*(group.caches for group in groups), strict=True)
    together = replace(groups[0], caches=tuple(JointCache(caches, rows) for caches in by_model))
    following, grown = together.step(torch.cat(list(ids)), count, _all_forced(forced, ids))
    parts = zip(
        *(part.split(rows) for part in (following.ids, following.logs, following.end)),
        strict=True,
    )
    by_group = zip(*(cache.groups for cache in grown.caches), strict=True)
    return [
        (NextIds(*part), replace(group, caches=caches))
        for part, group, caches in zip(parts, groups, by_group, strict=True)
    ]


def _all_forced(forced: Sequence[Tensor | None], ids: Sequence[Tensor]) -> Tensor | None:
    if all(part is None for part in forced):
        return None
    free = (torch.full_like(part, -1) for part in ids)
    return torch.cat([f if own is None else own for f, own in zip(free, forced, strict=True)])


def _read(
    model: TransformerModel, ids: Tensor, cache: DecoderCache | JointCache
) -> tuple[Tensor, DecoderCache | JointCache]:
    if isinstance(cache, JointCache):
        return model.read_jointly(ids, cache)
    return model.read(ids, cache)


def start_decoding(models: Sequence[TransformerModel], source: Tensor) -> DecoderStates:
    """Return the states of empty targets, one for each row of `source` (B, S)."""
    caches = tuple(model.start(model.encode(source)) for model in models)
    vocabulary = models[0].vocabulary
    at_once = GPU_LOGITS_AT_ONCE if source.is_cuda else LOGITS_AT_ONCE
    rows = max(1, at_once // vocabulary)
    matrix = models[0].output.matrix
    return DecoderStates(models, caches, matrix.new_empty(len(models), rows, vocabulary))


def _mean_logs(outputs: list[Output], states: tuple[Tensor, ...], buffer: Tensor) -> Tensor:
    """Return the logarithms (R, V) of the mean of the models' probabilities."""
    rows = states[0].size(0)
    logs = buffer[:, :rows]
    for output, state, out in zip(outputs, states, logs, strict=True):
        multiply(state, output.matrix[: output.vocabulary].t(), out=out)
        if output.bias is not None:
            out += output.bias
        torch.log_softmax(out, 1, out=out)
    return logs[0] if len(outputs) == 1 else logs.logsumexp(0) - math.log(len(outputs))


def best_by_half_logits(
    output: Output, states: Tensor, buffer: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best ids of each row, their log-probabilities and that of the end.

    Logits from bf16 choose who may be among the best, and sum up the others; for those few, and
    for the end, logits are computed again in fp32.
    """
    rows = states.size(0)
    assert output.packed is not None
    half = output.packed.rows(states)[:rows]
    logs = buffer[:rows].copy_(half)
    torch.log_softmax(logs, 1, out=logs)
    end = logs[:, END_ID].clone()
    for never in (PADDING_ID, BEGIN_ID, END_ID):
        logs[:, never] = -torch.inf
    few = min(count + SPARE, logs.size(1) - 3)
    rough, ids = best_per_row(logs, few)
    ids = torch.cat([ids, torch.full((rows, 1), END_ID)], dim=1)  # (R, C)
    rough = torch.cat([rough, end[:, None]], dim=1)
    matrix = output.matrix.index_select(0, ids.flatten()).view(rows, few + 1, -1)
    exact = (matrix * states[:, None]).sum(2)
    if output.bias is not None:
        exact += output.bias[ids]
    better = rough + (exact - half.gather(1, ids).float())
    better -= torch.log1p((better.exp() - rough.exp()).sum(1, keepdim=True))
    best, places = better[:, :-1].topk(min(count, few))
    return ids.gather(1, places), best, better[:, -1]


def _only(logs: Tensor, forced: Tensor) -> Tensor:
    """Make all ids but the forced ones impossible in the rows that have one."""
    rows = (forced >= 0).nonzero().flatten()
    kept = logs[rows, forced[rows]]
    logs[rows] = -torch.inf
    logs[rows, forced[rows]] = kept
    return logs


def _best(logs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    end = logs[:, END_ID].clone()
    for never in (PADDING_ID, BEGIN_ID, END_ID):  # a list of them would be copied to a GPU
        logs[:, never] = -torch.inf
    best, ids = best_per_row(logs, min(count, logs.size(1) - 3))
    return ids, best, end
