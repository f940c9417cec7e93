"""Waiting for other processes: it reports progress, and it ends. No torch here.

Calls into torch's store may block for longer than any timeout they are given. They are
therefore made in a thread, while the process itself stays able to report what it waits for.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from unisono.errors import RunError
from unisono.units import duration

T = TypeVar("T")
Notify = Callable[[str], None]

FIRST_NOTICE_SECONDS, LONGEST_NOTICE_GAP_SECONDS = 4.0, 60.0
LAST_ATTEMPT_SECONDS = 3.0  # more than one port check takes
BACKEND_LOSS_SIGNS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Connection refused",
    "Connection timed out",
    # NCCL's own words, and those of torch's watchdog.
    "NCCL communicator was aborted",
    "ncclRemoteError",
    "ncclSystemError",
    "remote process exited or there was a network error",
    "Watchdog caught collective operation timeout",
    "Connection closed by remote peer",
    "Some NCCL operations have failed or timed out",
    "collective operation timeout",
)


def how_contact_was_lost(error: RuntimeError) -> str:
    """Return the backend's words for a lost connection to a peer, or "" for another error."""
    text = str(error)
    return next((sign for sign in BACKEND_LOSS_SIGNS if sign in text), "")


GPU_FAULT_SIGNS = (
    "uncorrectable ECC error",
    "unspecified launch failure",
    "GPU has fallen off the bus",
    "GPU is lost",
    "an illegal memory access",
    "CUDA error: unknown error",
    "device not ready",
    "hardware exception",
    "CUDA error: the launch timed out",
)


def what_the_gpu_reports(error: RuntimeError) -> str:
    """Return CUDA's words for a GPU that failed, or "" for another error."""
    text = str(error)
    return next((sign for sign in GPU_FAULT_SIGNS if sign in text), "")


def no_notice(_: str) -> None:
    """Report nothing."""


class WaitAbandoned(Exception):  # noqa: N818  it only ends the thread
    """The deadline has passed, and the caller no longer waits."""


class Waiting:
    """What a thread waits for, as it last described it, and its deadline."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.fix = what, ""
        self._deadline = time.monotonic() + seconds

    def describe(self, what: str, fix: str = "") -> None:
        """Set what is missing and what a person should check."""
        self.what, self.fix = what, fix

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def give_up(self) -> None:
        """Make the current attempt the last one."""
        self._deadline = 0.0

    def pause(self, seconds: float) -> None:
        """Sleep before the next attempt; after the deadline, end the thread instead."""
        if not self.seconds_left:
            raise WaitAbandoned
        time.sleep(seconds)


def wait_with_progress(
    action: Callable[[Waiting], T], what: str, seconds: float, notify: Notify
) -> T:
    """Return what `action` returns; call `notify` with what it waits for, less and less often.

    After `seconds`, raise an error with the last description.
    """
    waiting, future = Waiting(what, seconds), Future[T]()
    thread = threading.Thread(target=_work, args=(action, waiting, future), daemon=True)
    thread.start()
    try:
        return _result(future, waiting, seconds, notify)
    finally:
        # A thread that returns from a store while Python shuts down aborts the process.
        waiting.give_up()
        thread.join(timeout=LAST_ATTEMPT_SECONDS)


def _result(future: "Future[T]", waiting: Waiting, seconds: float, notify: Notify) -> T:
    gap = FIRST_NOTICE_SECONDS
    while True:
        try:
            return future.result(timeout=min(gap, waiting.seconds_left))
        except TimeoutError:
            if future.done():
                raise
        except WaitAbandoned:
            pass  # the thread saw the deadline first
        if not waiting.seconds_left:
            raise RunError(f"after {duration(seconds)}, {waiting.what}", fix=waiting.fix)
        notify(f"{waiting.what}; {waiting.fix}" if waiting.fix else waiting.what)
        gap = min(2 * gap, LONGEST_NOTICE_GAP_SECONDS)


def _work(action: Callable[[Waiting], T], waiting: Waiting, future: "Future[T]") -> None:
    try:
        future.set_result(action(waiting))
    except BaseException as error:  # noqa: BLE001  it is raised where somebody waits
        future.set_exception(error)
