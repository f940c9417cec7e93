"""Attention of a few new tokens to many others, as a search needs it, on a CPU.

torch's kernel is made for long sentences. A search asks for a query or a beam of them at a
time, and few keys: two products and a softmax are several times as fast, if the softmax gets a
multiple of `LANES` scores, because torch computes what is left over number by number.

Shapes: B sentences, H heads, T queries, S keys, K width of a head, P = B * H.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

LANES = 16
MOST_QUERIES = 16  # for more, torch's kernel is as fast
# torch has no fast product for a single query and few keys.
FEW_NUMBERS = 400


def attends_here(query: Tensor) -> bool:
    """Return whether `step_attention` is the fastest for `query` (B, H, T, K)."""
    return pads_here(query) and query.dtype == torch.float32 and query.size(2) <= MOST_QUERIES


def pads_here(x: Tensor) -> bool:
    """Return whether sources get a multiple of `LANES` positions.

    The softmax is faster with them, and attention has the same bits for a sentence whatever the
    padding is that others of its batch make necessary.
    """
    return torch.is_inference_mode_enabled() and x.device.type == "cpu"


def step_attention(query: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
    """Attend from `query` (B, H, T, K) to `memory`; return (B, H, T, K).

    `mask` (B or 1, 1, 1 or T, S) is added to the scores.
    """
    keys, values = memory
    one = query.size(2) == 1 and keys.size(2) * keys.size(3) < FEW_NUMBERS
    if one:
        scores = (keys * query).sum(3)[:, :, None]
    else:
        pages = torch.bmm(query.flatten(0, 1), keys.flatten(0, 1).mT)
        scores = pages.view(*query.shape[:3], keys.size(2))  # (B, H, T, S)
    scores *= query.size(3) ** -0.5
    if mask is not None:
        scores += mask
    weights = _softmax(scores)
    if one:
        return (values * weights.mT).sum(2, keepdim=True)
    return torch.bmm(weights.flatten(0, 1), values.flatten(0, 1)).view_as(query)


def _softmax(scores: Tensor) -> Tensor:
    missing = -scores.size(3) % LANES
    if not missing:
        return scores.softmax(3)
    wider = F.pad(scores, (0, missing), value=-torch.inf)
    return wider.softmax(3)[..., : scores.size(3)]
