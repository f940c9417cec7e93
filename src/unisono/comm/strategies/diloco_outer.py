"""The outer optimizer of DiLoCo: it moves the common weights by what machines did locally.

All weights of a model form one row of numbers, cut into equal fragments that take turns. Of a
fragment, `anchor` holds the weights that all processes have in common, `here` those of this
process when it sent them. The processes of a machine move together: one of them sends for all
and keeps the residual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unisono.comm.strategies.packed_gather import CommThread, Subgroups
from unisono.comm.strategies.quantize import Bits, padded
from unisono.comm.strategies.two_phase_sum import (
    BackgroundSum,
    PendingSum,
    exchange_in,
    quantized_sum,
    shares_of,
)
from unisono.cost_model.exchange import FEW_MACHINES
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


NOT_FINITE_FIX = (
    "start the same command again: it goes on from the last checkpoint; if it comes again, "
    "start a new run with a lower learning rate and `train.clip_norm = 1.0`"
)


class OuterSettings(Protocol):
    """The settings that the outer optimizer needs."""

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
    def phases(self) -> int: ...
    @property
    def waits(self) -> bool: ...


@dataclass(eq=False)
class _Fragment:
    slices: list[FragmentSlice]
    anchor: Tensor
    residual: Tensor  # padded to whole blocks for each share; zeros where another process sends
    momentum: Tensor | None


@dataclass(frozen=True, eq=False)
class _Sent:
    fragment: _Fragment
    here: Tensor
    pending: PendingSum | None  # None where another process sends


class OuterOptimizer:
    """Moves the common weights, from one moment when all processes agree to the next."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        momenta: Mapping[str, Tensor],
        subgroups: Subgroups,
        settings: OuterSettings,
        thread: CommThread,
    ) -> None:
        """Let `thread` begin the second phase of a sum when the first has ended."""
        self._weights, self._subgroups, self._settings = weights, subgroups, settings
        self._shares = shares_of(settings.phases, subgroups)
        exchange = exchange_in(settings.phases, subgroups, settings.bits)
        self._exchange = BackgroundSum(exchange, thread) if self._shares > 1 else exchange
        self._sent: _Sent | None = None
        rows = [weight.detach() for weight in weights.values()]
        pasts = [momenta.get(n, torch.zeros_like(w)) for n, w in weights.items()]
        count = fragment_count(settings.local_steps, settings.fragments)
        self._fragments = [
            _Fragment(
                slices=slices,
                anchor=_flatten(rows, slices),
                residual=rows[0].new_zeros(padded(_count(slices), self._shares)),
                momentum=_flatten(pasts, slices) if settings.outer_momentum else None,
            )
            for slices in fragments_of([row.numel() for row in rows], count)
        ]

    @torch.no_grad()
    def take_turn(self, local_step: int) -> None:
        """Send the fragment whose turn it is after this update, and end the one before."""
        number = turn(local_step, self._settings.local_steps, len(self._fragments))
        if number is None:
            return
        self._finish_pending()
        self._send(self._fragments[number])
        if self._settings.waits:
            self._finish_pending()

    @torch.no_grad()
    def close(self) -> None:
        """Finish what is pending, and replace all weights by their mean.

        That includes what was never sent. Each machine sends its small distance from the common
        weights, for which 16 bits are enough.
        """
        self._finish_pending()
        for fragment in self._fragments:
            here = _flatten(
                [weight.detach() for weight in self._weights.values()], fragment.slices
            )
            moved = fragment.anchor - here + fragment.residual[: len(here)]
            mean = self._sum(moved) / self._subgroups.size
            for view, part in self._views(fragment, fragment.anchor - mean):
                view.copy_(part)

    def _live(self, fragment: _Fragment) -> Tensor:
        """Return this process's weights of a fragment, as they are now."""
        weights = [weight.detach() for weight in self._weights.values()]
        return _flatten(weights, fragment.slices)

    def _sum(self, moved: Tensor) -> Tensor:
        # In one phase they go to every machine: with many, a plain sum sends no more.
        many = self._shares == 1 and self._subgroups.senders > FEW_MACHINES
        if self._settings.bits == 32 or many:
            return self._subgroups.sum(moved)
        return quantized_sum(self._subgroups, moved, 16, self._settings.phases)

    def abandon(self) -> None:
        """Wait for what is pending, and forget it."""
        if self._sent is not None and self._sent.pending is not None:
            self._sent.pending.total()
        self._sent = None

    def momenta(self) -> dict[str, Tensor]:
        """Return the momentum of each weight, if there is any."""
        if not self._settings.outer_momentum:
            return {}
        found = [torch.zeros_like(weight) for weight in self._weights.values()]
        for fragment in self._fragments:
            if fragment.momentum is not None:
                _scatter(found, fragment.slices, fragment.momentum)
        return dict(zip(self._weights, found, strict=True))

    def _send(self, fragment: _Fragment) -> None:
        here = self._live(fragment)
        pending = None
        if self._subgroups.leads:
            moved = fragment.anchor - here
            if self._subgroups.members > 1:  # every process has the same weight
                moved *= self._subgroups.members
            wanted = fragment.residual
            wanted[: len(here)] += moved
            pending, fragment.residual = self._exchange.send(wanted)
        self._sent = _Sent(fragment, here, pending)

    def _finish_pending(self) -> None:
        sent, self._sent = self._sent, None  # it must not be waited for twice
        if sent is None:
            return
        fragment, here = sent.fragment, sent.here
        outer_step = self._outer_step(fragment, self._arrived(sent).div_(self._subgroups.size))
        if self._settings.outer_rate != 1.0:
            outer_step *= self._settings.outer_rate
        fragment.anchor -= outer_step
        now = self._live(fragment)
        # A process that has not moved since gets the common weights to the last bit.
        now.sub_(here).add_(fragment.anchor)
        for view, part in self._views(fragment, now):
            view.copy_(part)

    def _arrived(self, sent: _Sent) -> Tensor:
        """Return the sum of all movements, the same bits on all processes."""
        total = torch.empty_like(sent.here)
        if sent.pending is not None:
            total = sent.pending.total()[: len(sent.here)]
        self._subgroups.broadcast_from_first(total)
        check_finite([total], "the sum of what processes moved")
        return total

    def _outer_step(self, fragment: _Fragment, mean: Tensor) -> Tensor:
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
    # A sum is finite only if all numbers are, and takes half the time of testing each.
    if not all(bool(tensor.sum().isfinite()) for tensor in tensors):
        raise RunError(
            f"{what} holds a number that is not finite",
            where="the exchange of all processes (diloco)",
            fix=NOT_FINITE_FIX,
        )


def _count(slices: Sequence[FragmentSlice]) -> int:
    return sum(one.stop - one.start for one in slices)


def _pieces(tensors: list[Tensor], slices: list[FragmentSlice]) -> list[Tensor]:
    return [tensors[s.weight].view(-1)[s.start : s.stop] for s in slices]


def _flatten(tensors: list[Tensor], slices: list[FragmentSlice]) -> Tensor:
    return torch.cat(_pieces(tensors, slices))


def _scatter(tensors: list[Tensor], slices: list[FragmentSlice], row: Tensor) -> None:
    pieces = _pieces(tensors, slices)
    for piece, part in zip(pieces, row.split([p.numel() for p in pieces]), strict=True):
        piece.copy_(part)
