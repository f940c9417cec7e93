"""What the backend says when another process is gone. No torch here.

Waiting that says what it waits for, and that ends. No torch here.

Calls into a store may block for as long as they like, whatever timeout they were given. So
they are made in a thread of their own, while the process itself stays able to speak.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from unisono.errors import RunError
from unisono.units import duration

SIGNS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Connection refused",
    "Connection timed out",
    "NCCL communicator was aborted",
)


def how_contact_was_lost(error: RuntimeError) -> str:
    """Return in a few words how contact with another process was lost, or "" if it was not."""
    text = str(error)
    return next((sign for sign in SIGNS if sign in text), "")


T = TypeVar("T")
Tell = Callable[[str], None]

FIRST_WORD_SECONDS, LONGEST_SILENCE_SECONDS = 4.0, 60.0
LAST_ATTEMPT_SECONDS = 3.0  # more than one knock takes


def say_nothing(_: str) -> None:
    """Keep to oneself what is being waited for."""


class GivenUp(Exception):  # noqa: N818  nobody catches it: the thread just ends
    """Nobody waits any more."""


class Waiting:
    """What is being waited for, as the waiting thread last described it."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.fix = what, ""
        self._deadline = time.monotonic() + seconds

    def describe(self, what: str, fix: str = "") -> None:
        """Say what is missing and what to check, if anybody should ask."""
        self.what, self.fix = what, fix

    @property
    def seconds_left(self) -> float:
        """Return the seconds until nobody waits any more."""
        return max(0.0, self._deadline - time.monotonic())

    def give_up(self) -> None:
        """Let the next attempt be none."""
        self._deadline = 0.0

    def pause(self, seconds: float) -> None:
        """Let some time pass before the next attempt; there is none after the deadline."""
        if not self.seconds_left:
            raise GivenUp
        time.sleep(seconds)


def wait_aloud(action: Callable[[Waiting], T], what: str, seconds: float, tell: Tell) -> T:
    """Return what `action` returns; tell what it waits for, more and more seldom.

    After `seconds` it is an error with all that was told last.
    """
    waiting, future = Waiting(what, seconds), Future[T]()
    thread = threading.Thread(target=_work, args=(action, waiting, future), daemon=True)
    thread.start()
    try:
        return _result(future, waiting, seconds, tell)
    finally:
        # A thread that comes back from a store while Python ends would abort the process.
        waiting.give_up()
        thread.join(timeout=LAST_ATTEMPT_SECONDS)


def _result(future: "Future[T]", waiting: Waiting, seconds: float, tell: Tell) -> T:
    pause = FIRST_WORD_SECONDS
    while True:
        try:
            return future.result(timeout=min(pause, waiting.seconds_left))
        except TimeoutError:
            if future.done():
                raise
        if not waiting.seconds_left:
            raise RunError(f"after {duration(seconds)}, {waiting.what}", fix=waiting.fix)
        fix = f"; {waiting.fix}" if waiting.fix else ""
        tell(f"{waiting.what}{fix}")
        pause = min(2 * pause, LONGEST_SILENCE_SECONDS)


def _work(action: Callable[[Waiting], T], waiting: Waiting, future: "Future[T]") -> None:
    try:
        future.set_result(action(waiting))
    except BaseException as error:  # noqa: BLE001  it is raised where somebody waits
        future.set_exception(error)
