"""How a process keeps the memory that it frees.

Randomness that follows from what is being done, not from what was done before.

One process with eight micro-batches and eight processes with one draw the same dropout, and
a run that is killed and continued draws what it would have drawn.

Being asked to stop (SIGTERM, Ctrl-C) or to save now (SIGUSR1).
"""

import ctypes
import os
import signal
import socket
import sys
import threading
from types import FrameType, TracebackType

import numpy as np

from unisono.models.dropout import seed_rng

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # their numbers in malloc.h
NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Use freed memory again instead of returning it to the system after every step.

    Large tensors otherwise get new pages at every use, which the system fills with zeros
    first: 50,000 of them a step of the small preset, which takes 4 % of its time.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # not in every C library
        libc.mallopt(MMAP_MAX, 0)
        libc.mallopt(TRIM_THRESHOLD, NEVER)


def seed_for(seed: int, *keys: int) -> int:
    """Return a number for (`seed`, `keys`) that looks unrelated to that of any other keys."""
    state = np.random.SeedSequence((seed, *keys)).generate_state(2, np.uint32)
    return (int(state[0]) << 31) ^ int(state[1])


def set_randomness(seed: int, *keys: int) -> None:
    """Start the random numbers, on all devices, from (`seed`, `keys`)."""
    seed_rng(seed_for(seed, *keys))


STOPS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Notes what was asked for; a second SIGTERM or Ctrl-C ends the process at once.

    Python runs its handlers between two of its own instructions, so never while the process
    waits for the others inside of the backend. The second signal is therefore seen by a
    thread, to which the kernel's handler writes a byte.
    """

    def __init__(self) -> None:
        self.stop = False
        self._save = False
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "Signals":
        hears, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        threading.Thread(target=_end_at_second, args=(hears,), daemon=True).start()
        for number in STOPS:
            self._before[number] = signal.signal(number, self._note_stop)
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._note_save)
        self._wakeup_before = signal.set_wakeup_fd(
            self._bell.fileno(), warn_on_full_buffer=False
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._bell.close()

    def take_save(self) -> bool:
        """Return whether a save was asked for since the last time this was called."""
        wanted, self._save = self._save, False
        return wanted

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True

    def _note_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True


def _end_at_second(hears: socket.socket) -> None:
    stops = 0
    with hears:
        while numbers := hears.recv(64):
            stops += sum(number in STOPS for number in numbers)
            if stops > 1:
                os._exit(128 + numbers[-1])
