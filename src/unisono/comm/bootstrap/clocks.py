"""Do the machines agree on what time it is?

Torchrun compares the clocks of machines to tell who is alive: with one of two 20 s behind,
the other trained alone and called it a success. A clock is compared by asking process 0 for
its time: the answer was given between the question and its arrival. The quickest of some
answers tells the most.
"""

import time
from collections import Counter
from collections.abc import Iterable

import msgspec
from torch.distributed.distributed_c10d import Store

from unisono.comm.bootstrap.store import read
from unisono.comm.waiting import Waiting

DOUBTFUL_SECONDS, WRONG_SECONDS = 1.0, 5.0
LOOK_EVERY_SECONDS = 0.02
ROUNDS = 3


class ClockOffset(msgspec.Struct, frozen=True):
    """How many seconds a clock is ahead of that of process 0, give or take some."""

    ahead: float = 0.0
    give_or_take: float = 0.0

    @property
    def apart(self) -> float:
        """Return by how many seconds the two differ at least."""
        return max(0.0, abs(self.ahead) - self.give_or_take)

    @property
    def is_doubtful(self) -> bool:
        """Whether times of events on the two machines cannot be compared."""
        return self.apart > DOUBTFUL_SECONDS

    @property
    def is_wrong(self) -> bool:
        """Whether torchrun may take the one machine's processes for dead."""
        return self.apart > WRONG_SECONDS

    @property
    def words(self) -> str:
        """Say where it stands, as in "is 2.0 s behind"."""
        return f"is {abs(self.ahead):.1f} s {'ahead of' if self.ahead > 0 else 'behind'}"


def ask_clock(store: Store, rank: int, waiting: Waiting) -> ClockOffset:
    """Return how the clock here differs from that of process 0."""
    clocks = [_ask_once(store, f"{rank}/{number}", waiting) for number in range(ROUNDS)]
    return min(clocks, key=lambda clock: clock.give_or_take)


def _ask_once(store: Store, question: str, waiting: Waiting) -> ClockOffset:
    asked = time.time()
    store.set(f"clock/asks/{question}", "now?")
    while (answer := read(store, f"clock/answer/{question}")) is None:
        waiting.pause(LOOK_EVERY_SECONDS)
    heard = time.time()
    return ClockOffset((asked + heard) / 2 - float(answer), (heard - asked) / 2)


def answer_clock(store: Store, ranks: Iterable[int], answered: Counter[int]) -> None:
    """Tell the time to those of `ranks` who have asked; count how often each was answered."""
    for rank in ranks:
        question = f"{rank}/{answered[rank]}"
        if answered[rank] < ROUNDS and store.check([f"clock/asks/{question}"]):
            store.set(f"clock/answer/{question}", repr(time.time()))
            answered[rank] += 1
