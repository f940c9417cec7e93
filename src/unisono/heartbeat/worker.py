"""The worker's side: starts its watchman, tells it what it needs, and ends when it says so."""

import faulthandler
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from unisono.exit_codes import RESTARTABLE
from unisono.heartbeat.messages import (
    LONGEST_LINE,
    LossVerdict,
    Note,
    SidecarConfig,
    from_line,
    to_line,
)
from unisono.records.layout import RunDirectory

COMMAND = (sys.executable, "-m", "unisono.heartbeat")
# A watchman that was killed is replaced, but not for ever.
WATCHMEN = 5


class SidecarHandle:
    """The watchman of this process. If a rank is lost, this process ends with code 76."""

    def __init__(self, orders: SidecarConfig, end: Callable[[str], None]) -> None:
        """Start a watchman with these orders; `end` is called with words when all is lost."""
        self._orders, self._end = orders, end
        self._lock, self._over = threading.Lock(), threading.Event()
        self._last = Note()
        self._process = self._start()
        threading.Thread(target=self._hear, name="lookout", daemon=True).start()

    def note(self, step: int, section: str) -> None:
        """Tell the watchman how far this process is."""
        self._tell(Note(step=step, section=section))

    def last_words(self, words: str) -> None:
        """Tell the watchman what to say for this process, which is about to end."""
        self._tell(msgspec.structs.replace(self._last, words=words))

    def leave(self, trouble: str = "") -> None:
        """Tell the watchman that this process leaves the run by itself, and why if it fails."""
        self._over.set()
        leaves = msgspec.structs.replace(
            self._last, leaves="failed" if trouble else "done", words=trouble
        )
        self._tell(leaves)

    def wait_for_verdict(self) -> None:
        """Wait as long as it may take to find out who is lost; if one is, never return."""
        time.sleep(self._orders.limit + 1.0)

    def _start(self) -> "subprocess.Popen[bytes]":
        kept = (self._orders.listen,) if self._orders.listen >= 0 else ()
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=kept,
            # What kills this process's group, or is typed at its terminal, is not for it.
            start_new_session=True,
            bufsize=0,
        )
        if process.stdin is not None:
            process.stdin.write(to_line(self._orders))
            # A watchman that does not read must never hold up the training.
            os.set_blocking(process.stdin.fileno(), False)
        return process

    def _tell(self, note: Note) -> None:
        with self._lock, suppress(OSError):
            self._last = note
            if self._process.stdin is not None:
                self._process.stdin.write(to_line(note))

    def _hear(self) -> None:
        for replacements_left in reversed(range(WATCHMEN)):
            stream = self._process.stdout
            while stream is not None and (line := stream.readline(LONGEST_LINE)):
                verdict = from_line(line, LossVerdict)
                if verdict is not None and not self._over.is_set():
                    self._end(verdict.words)
            self._process.wait()
            if self._over.is_set() or not replacements_left:
                return
            with self._lock:
                self._process = self._start()


def end_with_stacks(run: str, rank: int, words: str) -> None:
    """Write down where every thread stands, and end this process with code 76 at once."""
    directory = RunDirectory(Path(run))
    with suppress(OSError):
        if directory.config.is_file():
            path = directory.stacks(rank)
            path.parent.mkdir(exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                moment = time.strftime("%Y-%m-%d %H:%M:%S")
                file.write(f"\n{moment} process {os.getpid()} ends: {words}\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)
    os._exit(RESTARTABLE)
