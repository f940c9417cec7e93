"""Writing a checkpoint while training goes on: a copy of the state, and a thread.

The copy is made at the update, in the order of the device's work. It is in host memory, pinned
beside a GPU, and is reused by the next save: there is one copy at most. The thread hashes,
writes and verifies it; it never talks to other processes.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from unisono.records.events import Saved, Warned


class HostCopies:
    """Copies of tensors in host memory, by name; their memory is kept for the next ones."""

    def __init__(self) -> None:
        self._copies: dict[str, Tensor] = {}
        self._memory: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Forget the copies, but not their memory."""
        self._memory, self._copies = self._copies, {}

    def add(self, name: str, tensor: Tensor) -> Tensor:
        """Return a copy, which is complete once `copied` says so."""
        copy = self._memory.pop(name, None)
        if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
            pinned = tensor.device.type == "cuda"
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
        copy.copy_(tensor.detach(), non_blocking=True)
        self._copies[name] = copy
        return copy

    def add_all(self, kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return copies of `tensors`; `kind` tells them from others of the same name."""
        return {name: self.add(f"{kind}/{name}", tensor) for name, tensor in tensors.items()}

    def copied(self, device: str) -> Callable[[], None]:
        """Return what waits until all copies from `device` are complete."""
        self._memory = {}
        if not device.startswith("cuda"):
            return lambda: None
        event = torch.cuda.Event()
        event.record()
        return event.synchronize


class BackgroundSave:
    """At most one save, under way in a thread; and how long training stood still for it."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._outcome: Future[Saved | Warned] | None = None
        self._stall = 0.0

    def start(self, write: Callable[[], Saved | Warned], stall: float) -> None:
        """Begin to `write`; training has stood still for `stall` seconds already."""
        self._outcome, self._stall = self._threads.submit(write), stall

    @property
    def is_written(self) -> bool:
        """Whether there is a save whose outcome is known."""
        return self._outcome is not None and self._outcome.done()

    def wait(self) -> tuple[Saved | Warned, float]:
        """Wait for the save; return its outcome, and for how long training stood still."""
        if self._outcome is None:
            raise RuntimeError("no save is under way")
        began = time.perf_counter()
        outcome, self._outcome = self._outcome.result(), None
        return outcome, self._stall + time.perf_counter() - began

    def close(self) -> None:
        """Wait until nothing is being written any more."""
        self._threads.shutdown()
