"""The weights of a model as one row of numbers, cut into equal pieces that take turns.

The outer optimizer of DiLoCo: common weights that are moved by what processes did alone.

A fragment of the weights is one row of n numbers. `anchor` is what all processes have in
common of it, `here` this process's own at the moment of sending. The processes of a machine
move together: one of them sends for all, and what is left over of it is kept there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unisono.comm.strategies.packed_gather import PackedGather, PendingGather, packed_sum
from unisono.comm.strategies.quantize import Bits, padded
from unisono.comm.strategies.subgroups import Subgroups
from unisono.errors import RunError


@dataclass(frozen=True)
class FragmentSlice:
    """The numbers from `start` to `stop` of weight number `weight`."""

    weight: int
    start: int
    stop: int


def fragment_count(local_steps: int, most: int) -> int:
    """Return how many fragments take turns in `local_steps` updates, at most `most`.

    At equal distances each has as long to travel as any other. Where that would leave only
    few, large ones, distances differ by one update.
    """
    equal = max(n for n in range(1, min(local_steps, most) + 1) if local_steps % n == 0)
    return equal if 2 * equal > min(local_steps, most) else min(local_steps, most)


def fragments_of(sizes: Sequence[int], count: int) -> list[list[FragmentSlice]]:
    """Cut weights of `sizes` numbers into `count` fragments as equal as can be."""
    total = sum(sizes)
    bounds = [total * number // count for number in range(count + 1)]
    fragments: list[list[FragmentSlice]] = [[] for _ in range(count)]
    offset = 0
    for weight, size in enumerate(sizes):
        for number, fragment in enumerate(fragments):
            start = max(bounds[number], offset) - offset
            stop = min(bounds[number + 1], offset + size) - offset
            if start < stop:
                fragment.append(FragmentSlice(weight, start, stop))
        offset += size
    return fragments


def turn(local_step: int, local_steps: int, count: int) -> int | None:
    """Return the fragment to be sent after local update number `local_step`, if any.

    Each of `count` has its turn once in `local_steps` updates, at equal distances.
    """
    place = (local_step - 1) % local_steps
    for number in range(count):
        if place == (number + 1) * local_steps // count - 1:
            return number
    return None


FEW = 4
NOT_FINITE_FIX = (
    "start the same command again: it goes on from the last checkpoint; if it comes again, "
    "start a new run with a lower learning rate and `train.clip_norm = 1.0`"
)


class OuterSettings(Protocol):
    """What the outer optimizer needs of the settings."""

    @property
    def local_steps(self) -> int: ...
    @property
    def fragments(self) -> int: ...
    @property
    def outer_rate(self) -> float: ...
    @property
    def outer_momentum(self) -> float: ...
    @property
    def bits(self) -> Bits: ...
    @property
    def waits(self) -> bool: ...


@dataclass(eq=False)
class _Fragment:
    slices: list[FragmentSlice]
    anchor: Tensor
    left_over: Tensor  # filled up to whole blocks; zeros where another process sends
    momentum: Tensor | None


@dataclass(frozen=True, eq=False)
class _Sent:
    fragment: _Fragment
    here: Tensor
    underway: PendingGather | None  # None where another process sends


class OuterOptimizer:
    """The common weights from one moment when all have the same to the next."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        momenta: Mapping[str, Tensor],
        lines: Subgroups,
        settings: OuterSettings,
    ) -> None:
        self._weights, self._lines, self._settings = weights, lines, settings
        self._messenger = PackedGather(lines.parties, settings.bits, lines.between)
        self._sent: _Sent | None = None
        rows = [weight.detach() for weight in weights.values()]
        pasts = [momenta.get(n, torch.zeros_like(w)) for n, w in weights.items()]
        count = fragment_count(settings.local_steps, settings.fragments)
        self._fragments = [
            _Fragment(
                slices=slices,
                anchor=_row(rows, slices),
                left_over=rows[0].new_zeros(padded(sum(s.stop - s.start for s in slices))),
                momentum=_row(pasts, slices) if settings.outer_momentum else None,
            )
            for slices in fragments_of([row.numel() for row in rows], count)
        ]

    @torch.no_grad()
    def take_turn(self, local_step: int) -> None:
        """Send the fragment whose turn it is after this update, and end the one before."""
        number = turn(local_step, self._settings.local_steps, len(self._fragments))
        if number is None:
            return
        self._land()
        self._send(self._fragments[number])
        if self._settings.waits:
            self._land()

    @torch.no_grad()
    def close(self) -> None:
        """End what is under way, and give all the mean of their weights.

        What was never sent is in it. Each says how far it is from the common weights: that
        is little, and 16 bits say it well enough.
        """
        self._land()
        for fragment in self._fragments:
            here = _row([weight.detach() for weight in self._weights.values()], fragment.slices)
            moved = fragment.anchor - here + fragment.left_over[: len(here)]
            mean = self._sum(moved) / self._lines.size
            for view, part in self._views(fragment, fragment.anchor - mean):
                view.copy_(part)

    def _sum(self, moved: Tensor) -> Tensor:
        # Packed numbers go to every party: of many, a plain sum sends no more.
        if self._settings.bits == 32 or self._lines.parties > FEW:
            return self._lines.sum(moved)
        return packed_sum(self._lines, moved, 16)

    def abandon(self) -> None:
        """Wait for what is under way, and forget it."""
        if self._sent is not None and self._sent.underway is not None:
            self._sent.underway.total()
        self._sent = None

    def momenta(self) -> dict[str, Tensor]:
        """Return the momentum of each weight, if there is any."""
        if not self._settings.outer_momentum:
            return {}
        found = [torch.zeros_like(weight) for weight in self._weights.values()]
        for fragment in self._fragments:
            if fragment.momentum is not None:
                _spread(found, fragment.slices, fragment.momentum)
        return dict(zip(self._weights, found, strict=True))

    def _send(self, fragment: _Fragment) -> None:
        here = _row([weight.detach() for weight in self._weights.values()], fragment.slices)
        underway = None
        if self._lines.leads:
            moved = fragment.anchor - here
            if self._lines.members > 1:  # each process counts as much as any other
                moved *= self._lines.members
            wanted = fragment.left_over
            wanted[: len(here)] += moved
            underway, fragment.left_over = self._messenger.send(wanted)
        self._sent = _Sent(fragment, here, underway)

    def _land(self) -> None:
        sent, self._sent = self._sent, None  # what has arrived cannot be waited for again
        if sent is None:
            return
        fragment, here = sent.fragment, sent.here
        pull = self._pull(fragment, self._arrived(sent).div_(self._lines.size))
        if self._settings.outer_rate != 1.0:
            pull *= self._settings.outer_rate
        fragment.anchor -= pull
        now = _row([weight.detach() for weight in self._weights.values()], fragment.slices)
        # Whoever has not moved since gets the common weights to the last bit.
        now.sub_(here).add_(fragment.anchor)
        for view, part in self._views(fragment, now):
            view.copy_(part)

    def _arrived(self, sent: _Sent) -> Tensor:
        """Return the sum of what all processes moved, the same bits on all."""
        total = torch.empty_like(sent.here)
        if sent.underway is not None:
            total = sent.underway.total()[: len(sent.here)]
        self._lines.from_first(total)
        check_finite([total], "what processes say of their weights")
        return total

    def _pull(self, fragment: _Fragment, mean: Tensor) -> Tensor:
        """Return the direction of Nesterov's momentum."""
        if fragment.momentum is None:
            return mean
        fragment.momentum.mul_(self._settings.outer_momentum).add_(mean)
        return mean + self._settings.outer_momentum * fragment.momentum

    def _views(self, fragment: _Fragment, row: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return each piece of the live weights with its part of `row`."""
        weights = [weight.detach() for weight in self._weights.values()]
        pieces = _pieces(weights, fragment.slices)
        sizes = [piece.numel() for piece in pieces]
        return list(zip(pieces, row[: sum(sizes)].split(sizes), strict=True))


def check_finite(tensors: Sequence[Tensor], what: str) -> None:
    """Raise an error if any number is not finite: on all processes, if all have the same."""
    # A sum is finite only if all are, and takes half the time of looking at each.
    if not all(bool(tensor.sum().isfinite()) for tensor in tensors):
        raise RunError(
            f"{what} holds a number that is not finite",
            where="the exchange of all processes (diloco)",
            fix=NOT_FINITE_FIX,
        )


def _pieces(tensors: list[Tensor], slices: list[FragmentSlice]) -> list[Tensor]:
    return [tensors[s.weight].view(-1)[s.start : s.stop] for s in slices]


def _row(tensors: list[Tensor], slices: list[FragmentSlice]) -> Tensor:
    return torch.cat(_pieces(tensors, slices))


def _spread(tensors: list[Tensor], slices: list[FragmentSlice], row: Tensor) -> None:
    pieces = _pieces(tensors, slices)
    for piece, part in zip(pieces, row.split([p.numel() for p in pieces]), strict=True):
        piece.copy_(part)
