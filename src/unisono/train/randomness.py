"""Randomness that follows from what is being done, not from what was done before.

One process with eight micro-batches and eight processes with one draw the same dropout, and
a run that is killed and continued draws what it would have drawn.
"""

import numpy as np

from unisono.models.numbers import start_numbers


def seed_for(seed: int, *keys: int) -> int:
    """Return a number for (`seed`, `keys`) that looks unrelated to that of any other keys."""
    state = np.random.SeedSequence((seed, *keys)).generate_state(2, np.uint32)
    return (int(state[0]) << 31) ^ int(state[1])


def set_randomness(seed: int, *keys: int) -> None:
    """Start the random numbers, on all devices, from (`seed`, `keys`)."""
    start_numbers(seed_for(seed, *keys))
