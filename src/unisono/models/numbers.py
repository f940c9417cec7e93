"""Where random numbers come from: torch's default generator, or a lane's own.

A generator belongs to the whole process. Threads that compute side by side would take numbers
from each other in an order that no one can repeat; so each lane has one, and the same start
gives the same numbers in either.
"""

import threading

import torch

from unisono.thread_lanes import in_lane

_here = threading.local()


def start_numbers(seed: int) -> None:
    """Start the numbers from `seed`: those of this lane, or else all of torch's.

    `torch.manual_seed` takes up to a millisecond where there is no GPU: it notes down for
    three kinds of them, each with a traceback, what to do once there is one.
    """
    numbers().manual_seed(seed)
    if not in_lane() and torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def numbers() -> torch.Generator:
    """Return the generator that this thread takes its numbers from."""
    if not in_lane():
        return torch.default_generator
    if not hasattr(_here, "generator"):
        _here.generator = torch.Generator()
    own: torch.Generator = _here.generator
    return own
