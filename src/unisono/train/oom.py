"""What does not fit into the memory of one process is told by all, as an error to act on."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.errors import ConfigError

T = TypeVar("T")

CPU_REFUSES = "can't allocate memory"  # torch has no error of its own for it


@contextmanager
def fitting(settings: Settings, device: str) -> Iterator[None]:
    """Raise a ConfigError if the block needs more memory than there is."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_about_memory(error):
            raise
        first = str(error).partition("\n")[0].strip() or "out of memory"
        tokens = settings.batching.tokens_per_micro_batch
        raise ConfigError(
            f"it does not fit into the memory of {device} on {os.uname().nodename}: {first}",
            where=f"[batching] tokens_per_micro_batch = {tokens}",
            fix="lower `batching.tokens_per_micro_batch`, or take a smaller model",
        ) from error


def all_fit(comm: Comm, settings: Settings, action: Callable[[], T]) -> T:
    """Return what `action`, which speaks to nobody, returns; if one has no room, all fail."""

    def within() -> T:
        with fitting(settings, comm.world.device):
            return action()

    return all_or_none(comm, within)


def _is_about_memory(error: Exception) -> bool:
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or CPU_REFUSES in str(error)
