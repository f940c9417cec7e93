"""Decode the next token of several groups of sentences in one go.

All rows share the matrix products, which need many rows to be fast; each group attends by
itself, because its targets and sources have their own lengths.

Shapes: R target rows of all groups, D model width, H heads, K width of a head.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unisono.models.attention import JointCache, KeysAndValues, LayerCache
from unisono.models.layers import DecoderLayer
from unisono.models.positions import rotated


def decode_jointly(
    layer: DecoderLayer,
    x: Tensor,
    cache: JointCache,
    number: int,
    rotations: Sequence[Tensor | None],
) -> tuple[Tensor, list[LayerCache]]:
    """Return the output of decoder layer `number` for `x` (R, 1, D), and its longer caches."""
    caches = [group.layers[number] for group in cache.groups]
    grown: list[KeysAndValues] = []

    def attend_to_target(y: Tensor) -> Tensor:
        query, (key, value) = layer.self_attention.split(y)
        parts = zip(*(side.split(cache.rows) for side in (query, key, value)), strict=True)
        heads = []
        for (q, k, v), group, rotation in zip(parts, caches, rotations, strict=True):
            if rotation is not None:
                q, k = rotated(q, rotation), rotated(k, rotation)
            grown.append(group.longer_target((k, v)))
            heads.append(layer.self_attention.heads_of(q, grown[-1]))
        return layer.self_attention.project(torch.cat(heads))

    def attend_to_source(y: Tensor) -> Tensor:
        attention = layer.cross_attention
        queries = attention.query(y).split(cache.rows)
        heads = [
            attention.heads_for(query, own.source, group.mask).reshape(
                query.size(0), 1, attention.heads, -1
            )
            for query, own, group in zip(queries, caches, cache.groups, strict=True)
        ]
        return attention.project(torch.cat(heads))

    x = layer.around_self(x, attend_to_target)
    x = layer.around_cross(x, attend_to_source)
    x = layer.around_feed_forward(x, layer.feed_forward)
    return x, [
        LayerCache(own.source, target) for own, target in zip(caches, grown, strict=True)
    ]
