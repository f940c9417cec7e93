"""What a training process sets up for itself: memory, random numbers and signals.

Random numbers follow from what is being done, not from what was done before: one process
with eight micro-batches and eight processes with one draw the same dropout, and a run that
is killed and continued draws what it would have drawn.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import numpy as np
import torch

from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.errors import ConfigError
from unisono.models.dropout import seed_rng
from unisono.models.memory import largest_tokens
from unisono.parent_process import hang_up_counts
from unisono.train.micro_batches import free_for_us

T = TypeVar("T")

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # their numbers in malloc.h
LARGEST_THRESHOLD = 2**31 - 1
# torch raises a plain RuntimeError with these words, for a CPU, a GPU and CUDA's libraries.
MEMORY_REFUSED = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "_STATUS_ALLOC_FAILED",
    "'out of memory'",
)


def keep_freed_memory() -> None:
    """Reuse freed memory instead of returning it to the system after every step.

    Otherwise large tensors get new pages at every use, which the system fills with zeros
    first: 50,000 pages per step of the small preset, 4 % of its time.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # not every C library has it
        libc.mallopt(MMAP_MAX, 0)
        libc.mallopt(TRIM_THRESHOLD, LARGEST_THRESHOLD)


def choose_gpu_kernels(device: str, *, deterministic: bool) -> None:
    """Exclude the kernels that do not suit us on a GPU; call it before anything runs there.

    On newer GPUs torch prefers cuDNN's attention, which builds a plan for every shape, and
    padded batches have thousands of shapes. With `deterministic`, torch takes kernels whose
    result does not depend on the order in which threads finish, and fails where it has none.
    """
    if not device.startswith("cuda"):
        return
    torch.backends.cuda.enable_cudnn_sdp(False)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it later
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@contextmanager
def explain_oom(
    settings: Settings, device: str, unfit: Callable[[], str] | None = None
) -> Iterator[None]:
    """Raise a ConfigError if the block runs out of memory.

    In a run that has begun, `unfit` says what does not fit.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        first = str(error).partition("\n")[0].strip() or "out of memory"
        tokens = settings.batching.tokens_per_micro_batch
        raise ConfigError(
            f"{unfit() if unfit else 'the model and its batch do not fit'} into the memory of "
            f"{device} on {os.uname().nodename}: {first}",
            where=f"[batching] tokens_per_micro_batch = {tokens}",
            fix=_smaller_fix(settings, device, began=unfit is not None),
        ) from error


def _smaller_fix(settings: Settings, device: str, *, began: bool) -> str:
    """Return what to do if memory is short: on a GPU, with the largest size that fits."""
    most, others = _largest_fit(settings, device)
    taken = f"; other programs hold {others / 1e9:.1f} GB of it" if others > 1e9 else ""
    smaller = f"`batching.tokens_per_micro_batch = {most}`"
    if began:
        return (
            f"free memory there{taken}; the same command continues from the last checkpoint. A "
            f"run keeps its micro-batches: for smaller ones{f', {smaller},' if most else ''} "
            "start a new run from this one's weights (`[start] from`)"
        )
    if most:
        return f"set {smaller}{taken}"
    return f"lower `batching.tokens_per_micro_batch`, or choose a smaller model{taken}"


def _largest_fit(settings: Settings, device: str) -> tuple[int, float]:
    """Return the largest micro-batch for a GPU (0: unknown) and the bytes others hold."""
    if not device.startswith("cuda"):
        return 0, 0.0
    try:
        room, others = free_for_us(device)
    except RuntimeError:  # the GPU is so full that it does not even answer this
        return 0, 0.0
    kind = settings.train.precision if settings.train.precision != "auto" else "fp32"
    most = largest_tokens(settings.model, settings.corpus.vocabulary, kind, room)
    return min(most, settings.batching.tokens_per_micro_batch * 9 // 10 // 16 * 16), others


def all_fit(comm: Comm, settings: Settings, action: Callable[[], T]) -> T:
    """Return the result of `action`; if one process runs out of memory, all raise the error.

    `action` must not communicate.
    """

    def explained() -> T:
        with explain_oom(settings, comm.world.device):
            return action()

    return all_or_none(comm, explained)


def is_about_memory(error: Exception) -> bool:
    """Whether the error says that memory is short."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(words in str(error) for words in MEMORY_REFUSED)


def seed_for(seed: int, *keys: int) -> int:
    """Return a seed for (`seed`, `keys`) that looks unrelated to that of any other keys."""
    state = np.random.SeedSequence((seed, *keys)).generate_state(2, np.uint32)
    return (int(state[0]) << 31) ^ int(state[1])


def set_randomness(seed: int, *keys: int) -> None:
    """Start the random numbers, on all devices, from (`seed`, `keys`)."""
    seed_rng(seed_for(seed, *keys))


STOPS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Takes note of SIGTERM, Ctrl-C and SIGHUP (stop) and SIGUSR1 (save now).

    SIGHUP may come twice when a terminal closes; a second SIGTERM or Ctrl-C ends the process
    at once. Python runs its handlers between two of its own instructions, so never while the
    process waits for others inside the backend. A thread therefore sees the second signal:
    the C handler writes a byte to its socket.
    """

    def __init__(self) -> None:
        self.stop = False
        self._save = False
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "Signals":
        reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        threading.Thread(target=_end_at_second, args=(reader,), daemon=True).start()
        for number in (*STOPS, *([signal.SIGHUP] if hang_up_counts() else ())):
            self._before[number] = signal.signal(number, self._note_stop)
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._note_save)
        self._wakeup_before = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._writer.close()

    def take_save(self) -> bool:
        """Return whether somebody asked for a save since the last call."""
        wanted, self._save = self._save, False
        return wanted

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True

    def _note_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True


def _end_at_second(reader: socket.socket) -> None:
    stops = 0
    with reader:
        while numbers := reader.recv(64):
            stops += sum(number in STOPS for number in numbers)
            if stops > 1:
                os._exit(128 + numbers[-1])
