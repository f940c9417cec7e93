"""Let sentences join others that are being decoded, and drop columns that nobody needs.

Shapes: B sentences, R target rows, S source positions, T target positions, H heads, K width of
a head.

Targets of different lengths end together, so that the next token of all rows comes in one
column: the shorter ones begin with padding. Sources begin together and end with padding.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from unisono.models.attention import DecoderCache, KeysAndValues, LayerCache, masked_score


def joined(running: DecoderCache, fresh: DecoderCache, width: int) -> DecoderCache:
    """Return the cache of the sentences of both; `fresh` has no target token yet.

    Each sentence of `fresh` gets `width` rows, as those of `running` have.
    """
    positions = max(source_positions(running), source_positions(fresh))
    added = width * fresh.layers[0].source[0].size(0)
    pairs = zip(running.layers, fresh.layers, strict=True)
    layers = tuple(
        LayerCache(_sources(old.source, new.source, positions), _with_empty(old.target, added))
        for old, new in pairs
    )
    mask = _masks(running, fresh, positions)
    return DecoderCache(layers, mask, _ahead(running, added))


def cut(cache: DecoderCache, columns: int, positions: int) -> DecoderCache:
    """Keep the last columns of the targets, and the first positions of the sources."""
    spare = cache.columns - columns
    if not spare and positions == source_positions(cache):
        return cache
    layers = tuple(_cut(layer, spare, positions) for layer in cache.layers)
    mask = None if cache.mask is None else cache.mask[..., :positions]
    ahead = None if cache.ahead is None else cache.ahead - spare
    if ahead is not None and not bool(ahead.any()):
        ahead = None
    return replace(cache, layers=layers, mask=mask, ahead=ahead)


def source_positions(cache: DecoderCache) -> int:
    """Return the positions of the longest source."""
    return cache.layers[0].source[0].size(2)


def _cut(layer: LayerCache, spare: int, positions: int) -> LayerCache:
    keys, values = layer.source
    source, target = (keys[:, :, :positions], values[:, :, :positions]), layer.target
    if target is not None:
        target = target[0][:, :, spare:], target[1][:, :, spare:]
    return LayerCache(source, target)


def _sources(old: KeysAndValues, new: KeysAndValues, positions: int) -> KeysAndValues:
    keys, values = (
        torch.cat([_lengthened(side, positions) for side in both])
        for both in zip(old, new, strict=True)
    )
    return keys, values


def _lengthened(x: Tensor, positions: int) -> Tensor:
    missing = positions - x.size(2)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def _with_empty(target: KeysAndValues | None, rows: int) -> KeysAndValues | None:
    if target is None:
        return None
    keys, values = (torch.cat([x, x.new_zeros(rows, *x.shape[1:])]) for x in target)
    return keys, values


def _ahead(running: DecoderCache, added: int) -> Tensor | None:
    columns = running.columns
    if not columns:
        return None
    if running.ahead is None:
        rows = running.layers[0].target[0].size(0) if running.layers[0].target else 0
        ahead = torch.zeros(rows, dtype=torch.long, device=running.layers[0].source[0].device)
    else:
        ahead = running.ahead
    return torch.cat([ahead, ahead.new_full((added,), columns)])


def _masks(running: DecoderCache, fresh: DecoderCache, positions: int) -> Tensor | None:
    masks = [_mask(cache, positions) for cache in (running, fresh)]
    return torch.cat(masks) if any(bool(mask.any()) for mask in masks) else None


def _mask(cache: DecoderCache, positions: int) -> Tensor:
    """Return the mask of the sources (B, 1, 1, `positions`) whether there is padding or not."""
    keys = cache.layers[0].source[0]
    mask = cache.mask
    if mask is None:
        mask = keys.new_zeros(keys.size(0), 1, 1, keys.size(2))
    return F.pad(mask, (0, positions - mask.size(3)), value=masked_score(mask.dtype))
