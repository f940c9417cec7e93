"""The machines of a run before its processes exist: who is here, and whose clock is wrong."""

import socket
import threading
import time
from collections import Counter

import psutil
from torch.distributed.distributed_c10d import Store

from unisono.comm.clocks import answer_clock, ask_clock
from unisono.comm.store import read
from unisono.comm.waiting import FIRST_WORD_SECONDS, LONGEST_SILENCE_SECONDS, Tell, wait_aloud
from unisono.errors import RunError

# Whoever tells the time looks often in the beginning: the sooner the answer, the better.
LOOK_EVERY_SECONDS, SELDOM_SECONDS, OFTEN_SECONDS = 0.2, 2.0, 0.05
ANSWER_SECONDS = 30.0
GOODBYE_SECONDS = 3.0


def announce(store: Store) -> int:
    """Say that this machine is here; return its number, from 1 on."""
    number = int(store.add("machines", 1))
    store.set(f"machine/{number}", socket.gethostname())
    return number


def check_clock(store: Store, number: int, tell: Tell) -> None:
    """Raise an error if the clock here is not that of the machine that holds the store."""
    what = "the first machine does not tell the time"
    clock = wait_aloud(lambda w: ask_clock(store, number, w), what, ANSWER_SECONDS, tell)
    said = f"the clock of {socket.gethostname()} {clock.words} that of the first machine"
    if clock.is_wrong:
        raise RunError(said, fix="set the clocks of all machines by NTP (chrony, timesyncd)")
    if clock.is_doubtful:
        tell(f"warning: {said}")


class Watch:
    """Tells in the background who is missing; whoever `holds` the store also tells the time."""

    def __init__(self, store: Store, least: int, tell: Tell, *, holds: bool) -> None:
        self._store, self._least, self._tell, self._holds = store, least, tell, holds
        self._answered: Counter[int] = Counter()
        self._were_together = False
        self._wait_anew()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; a thread inside the store while Python ends would abort the process."""
        self._over.set()
        self._thread.join(timeout=GOODBYE_SECONDS)

    def _run(self) -> None:
        try:
            while True:
                self._look()
                if self._over.wait(self._until_next_look()):
                    return
        except RuntimeError:
            return  # the store is gone: torchrun says so

    def _until_next_look(self) -> float:
        if self._holds:
            return LOOK_EVERY_SECONDS if self._were_together else OFTEN_SECONDS
        return SELDOM_SECONDS if self._were_together else LOOK_EVERY_SECONDS

    def _look(self) -> None:
        count = int(self._store.add("machines", 0))
        numbers = range(1, count + 1)
        if self._holds:
            answer_clock(self._store, numbers, self._answered)
        if time.monotonic() < self._next_word:
            return
        if _has_workers():
            self._were_together = True
            self._wait_anew()
            return
        if self._were_together:
            self._say(f"{socket.gethostname()} waits for the machines to come together again")
            return
        names = [read(self._store, f"machine/{number}") or b"" for number in numbers]
        hosts = list(dict.fromkeys(name.decode() for name in names if name))
        if len(hosts) < self._least:
            here, missing = ", ".join(hosts), self._least - len(hosts)
            self._say(
                f"{socket.gethostname()} waits: {len(hosts)} of {self._least} machines are "
                f"here ({here}), {missing} missing; check that training was started there, "
                "and what it says"
            )

    def _wait_anew(self) -> None:
        self._pause = FIRST_WORD_SECONDS
        self._next_word = time.monotonic() + self._pause

    def _say(self, words: str) -> None:
        self._tell(words)
        self._pause = min(2 * self._pause, LONGEST_SILENCE_SECONDS)
        self._next_word = time.monotonic() + self._pause


def _has_workers() -> bool:
    """Say whether torchrun has found enough machines and started its workers."""
    return bool(psutil.Process().children())
