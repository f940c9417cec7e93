"""Verifies that all processes have the same weights, bit for bit.

A process whose memory or arithmetic is faulty goes on with weights of its own, and nothing
else would show it: gradients are summed, the loss looks good, and one process saves.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from unisono.comm.protocol import Comm
from unisono.comm.settings import Sync
from unisono.errors import RunError
from unisono.records.events import WEIGHTS_DIFFER, Warned

WHOLE_NUMBERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
SHOWN = 3


def compare_weights(comm: Comm, model: nn.Module, sync: Sync, step: int) -> Iterator[Warned]:
    """Compare the weights of all processes, if it is due.

    A difference is an error, or only a warning if the settings say so.
    """
    due = sync.check_weights != "off" and step % sync.check_weights_every_steps == 0
    if not due or comm.world.size == 1:
        return
    names = [name for name, _ in model.named_parameters()]
    words = difference(names, _of_all(comm, model))
    if not words:
        return
    what = f"at step {step} {WEIGHTS_DIFFER}: {words}"
    yield Warned(time=time.time(), step=step, message=what)
    if sync.check_weights == "warn":
        return
    raise RunError(
        what,
        where="sync.check_weights",
        fix="test the memory of that machine and leave it out; the same command continues "
        "from the last checkpoint, and an earlier one may be safer: remove the later ones",
    )


def broadcast_weights(comm: Comm, model: nn.Module) -> None:
    """Give all processes the leading one's weights wherever theirs are different.

    They draw the same numbers, but another kind of processor may round them differently.
    Sending all weights over a slow network would take as long as an update.
    """
    if comm.world.size == 1:
        return
    rows = _of_all(comm, model)
    with torch.no_grad():
        for column, weight in enumerate(model.parameters()):
            if len({int(row[column]) for row in rows}) > 1:
                weight.copy_(comm.from_leader(weight.detach()))


def _of_all(comm: Comm, model: nn.Module) -> "list[np.ndarray[tuple[int], np.dtype[np.int64]]]":
    mine = checksums(list(model.parameters()))
    return [np.frombuffer(row, dtype=np.int64) for row in comm.gather_bytes(mine.tobytes())]


def checksums(weights: Sequence[Tensor]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return for each tensor the sum of its bits, read as whole numbers.

    One bit that differs, in however large a tensor, changes the sum.
    """
    sums = [
        weight.detach().contiguous().view(WHOLE_NUMBERS[weight.element_size()]).sum()
        for weight in weights
    ]
    return torch.stack(sums).cpu().numpy()


def difference(
    names: Sequence[str], rows: "Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]"
) -> str:
    """Return which ranks differ from the majority, and in which weights; or ""."""
    wrong: dict[int, list[str]] = {}
    for column, name in enumerate(names):
        values = [int(row[column]) for row in rows]
        usual = _usual(values)
        for rank, value in enumerate(values):
            if value != usual:
                wrong.setdefault(rank, []).append(name)
    return "; ".join(f"rank {rank} in {_listed(found)}" for rank, found in wrong.items())


def _usual(values: Sequence[int]) -> int:
    # Two processes have no majority; then rank 0 counts, because it saves its weights.
    [(value, times)] = Counter(values).most_common(1)
    return value if times > len(values) / 2 else values[0]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
