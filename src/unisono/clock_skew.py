"""How far apart the clocks of two machines are, and whether a run can live with it.

torchrun compares the clocks of machines to tell which of them are alive. With one clock of two
20 s behind, the other machine trained alone and reported success. Clocks are therefore
compared before a launch over ssh, when the agents meet, and when the processes meet: each time
by this module, so that the thresholds and the words are the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import msgspec

DOUBTFUL_SKEW_SECONDS = 1.0  # beyond it, times of events on two machines cannot be compared
WRONG_SKEW_SECONDS = 5.0  # beyond it, torchrun may take the machine for dead
CLOCK_FIX = (
    "synchronize the clocks of all machines by NTP (chrony, timesyncd, or `timedatectl "
    "set-ntp true`); otherwise torchrun may train on each machine alone"
)


class ClockOffset(msgspec.Struct, frozen=True):
    """By how many seconds one clock is ahead of another, give or take `uncertainty`."""

    ahead: float = 0.0
    uncertainty: float = 0.0

    def relative_to(self, other: Self) -> "ClockOffset":
        """Return the offset between two clocks that were measured against the same third."""
        return ClockOffset(self.ahead - other.ahead, self.uncertainty + other.uncertainty)


@dataclass(frozen=True)
class ClockComparison:
    """Two clocks, compared: in words, and whether the difference is doubtful or wrong.

    A wrong clock ends a run. A doubtful one is worth a warning; before a launch, while nothing
    runs yet, it is worth an error.
    """

    text: str
    is_doubtful: bool
    is_wrong: bool


def measure_offset(read_other_clock: Callable[[], float], rounds: int) -> ClockOffset:
    """Return by how much another machine's clock is ahead of the clock here.

    The other machine read its clock at some moment between request and reply, most likely
    halfway. The quickest of the `rounds` bounds that moment best.
    """
    offsets = []
    for _ in range(rounds):
        sent = time.time()
        other = read_other_clock()
        received = time.time()
        offsets.append(offset_between(sent, other, received))
    return min(offsets, key=lambda offset: offset.uncertainty)


def offset_between(sent: float, other: float, received: float) -> ClockOffset:
    """Return the offset of a clock that was read between a request and its reply."""
    return ClockOffset(other - (sent + received) / 2, (received - sent) / 2)


def compare_clocks(offset: ClockOffset, machine: str, reference: str) -> ClockComparison:
    """Judge the clock of `machine` by its offset from that of `reference`."""
    certain = abs(offset.ahead) - offset.uncertainty
    direction = "ahead of" if offset.ahead > 0 else "behind"
    return ClockComparison(
        f"the clock of {machine} is {abs(offset.ahead):.1f} s {direction} that of {reference}",
        is_doubtful=certain > DOUBTFUL_SKEW_SECONDS,
        is_wrong=certain > WRONG_SKEW_SECONDS,
    )
