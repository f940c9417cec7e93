"""What all processes do together: succeed or fail as one, compare facts, share tensors."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import msgspec
import torch
from torch import Tensor

from unisono.comm.protocol import Comm
from unisono.errors import PeerFailedError, RunError, UnisonoError

T = TypeVar("T")

_HOST = "the host"
MESSAGE_NUMBERS = 4_000_000


def all_or_none(comm: Comm, action: Callable[[], T]) -> T:
    """Return what `action` returns; if it fails on any process, fail on all.

    The process that failed raises its own error, the leading one names that process, and the
    others end silently, so that a person reads the reason once. All end with the exit code of
    the cause, since whoever started them may look at any.
    """
    result: list[T] = []
    error: UnisonoError | OSError | None = None
    try:
        result.append(action())
    except (UnisonoError, OSError) as caught:
        error = caught
    replies = comm.gather_bytes(msgspec.json.encode(error and _Failed.of(error)))
    failures = {
        rank: failed
        for rank, text in enumerate(replies)
        if (failed := msgspec.json.decode(text, type=_Failed | None))
    }
    if error is not None and (comm.world.leads or 0 not in failures):
        raise error
    if failures:
        rank, failed = next(iter(failures.items()))
        if comm.world.leads:
            raise RunError(
                f"process {rank} failed: {failed.message}", exit_code=failed.exit_code
            )
        raise PeerFailedError(f"process {rank} failed", exit_code=failed.exit_code)
    return result[0]


class _Failed(msgspec.Struct):
    message: str
    exit_code: int

    @classmethod
    def of(cls, error: UnisonoError | OSError) -> Self:
        code = error.exit_code if isinstance(error, UnisonoError) else UnisonoError.exit_code
        return cls(str(error), code)


def check_same(comm: Comm, facts: Mapping[str, str]) -> None:
    """Raise an error that names the first fact in which a process differs from the leader."""
    mine = {**facts, _HOST: socket.gethostname()}
    rows = [
        msgspec.json.decode(row, type=dict[str, str])
        for row in comm.gather_bytes(msgspec.json.encode(mine))
    ]
    for rank, row in enumerate(rows):
        for name in dict.fromkeys((*rows[0], *row)):
            value, other = (facts.get(name, "nothing") for facts in (rows[0], row))
            if value != other and name != _HOST:
                raise RunError(
                    f"processes do not agree on {name}: process 0 on {rows[0][_HOST]} has "
                    f"{value}, process {rank} on {row[_HOST]} has {other}",
                    where=f"process {rank} on {row[_HOST]}",
                    fix="use the same version, settings and corpus on all machines",
                )


def take_means(
    sum_of: Callable[[Tensor], Tensor], size: int, tensors: Sequence[Tensor]
) -> None:
    """Replace each of `tensors`, which all `size` processes have, by its mean over them."""
    for group in _messages(tensors):
        mean = sum_of(torch.cat([tensor.flatten() for tensor in group])) / size
        parts = mean.split([tensor.numel() for tensor in group])
        for tensor, part in zip(group, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


def _messages(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield tensors of one type together, as many as make a message worth sending."""
    group: list[Tensor] = []
    for tensor in tensors:
        full = sum(one.numel() for one in group) >= MESSAGE_NUMBERS
        if group and (full or tensor.dtype != group[0].dtype):
            yield group
            group = []
        group.append(tensor)
    if group:
        yield group


def tensors_from_leader(comm: Comm, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the leading process's tensors by name, on the CPU, whatever the others passed."""
    shapes = {name: (str(t.dtype), list(t.shape)) for name, t in tensors.items()}
    reply = comm.gather_bytes(msgspec.json.encode(shapes))[0]
    wanted = msgspec.json.decode(reply, type=dict[str, tuple[str, list[int]]])
    received = {}
    for name, (kind, shape) in wanted.items():
        empty = torch.empty(shape, dtype=getattr(torch, kind.removeprefix("torch.")))
        mine = tensors[name] if comm.world.leads else empty
        received[name] = comm.from_leader(mine).cpu()
    return received
