"""The worker's side: start a sidecar, tell it how far we are, end when it reports a loss."""

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
from unisono.heartbeat.sidecar import process_state
from unisono.records.layout import RunDirectory

SUPERVISED = "UNISONO_SUPERVISED"  # set for workers whose agent is restarted if it fails
SIDECAR_COMMAND = (sys.executable, "-m", "unisono.heartbeat")
# A sidecar that was killed is replaced, but not forever.
MOST_SIDECARS = 5
# How often a worker looks whether its sidecar is stopped, and the share of the limit for that.
LOOK_SECONDS, SIDECAR_STOPPED_SHARE = 0.5, 0.2


class SidecarHandle:
    """The sidecar of this process. If a rank is lost, this process ends with code 76."""

    def __init__(self, config: SidecarConfig, end: Callable[[str], None]) -> None:
        """Start a sidecar; when it reports a loss, call `end` with its message."""
        self._config, self._end = config, end
        self._lock, self._over = threading.Lock(), threading.Event()
        self._last = Note()
        self._process = self._start()
        threading.Thread(target=self._read_verdicts, name="heartbeat", daemon=True).start()
        threading.Thread(target=self._replace_stopped, name="sidecar", daemon=True).start()

    def note(self, step: int, section: str) -> None:
        """Tell the sidecar how far this process is."""
        self._tell(Note(step=step, section=section))

    def last_words(self, message: str) -> None:
        """Tell the sidecar why this process is about to end."""
        self._tell(msgspec.structs.replace(self._last, message=message))

    def leave(self, trouble: str = "") -> None:
        """Tell the sidecar that this process leaves the run, and why if it failed."""
        self._over.set()
        leaves = msgspec.structs.replace(
            self._last, leaves="failed" if trouble else "done", message=trouble
        )
        self._tell(leaves)

    def wait_for_verdict(self) -> None:
        """Wait as long as it may take to find out who is lost; after a loss, never return."""
        time.sleep(self._config.limit + 1.0)

    def _start(self) -> "subprocess.Popen[bytes]":
        kept = (self._config.listen,) if self._config.listen >= 0 else ()
        process = subprocess.Popen(
            SIDECAR_COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=kept,
            # Signals to this process's group or terminal must not reach the sidecar.
            start_new_session=True,
            bufsize=0,
        )
        if process.stdin is not None:
            process.stdin.write(to_line(self._config))
            # A sidecar that does not read must never hold up training.
            os.set_blocking(process.stdin.fileno(), False)
        return process

    def _tell(self, note: Note) -> None:
        with self._lock, suppress(OSError):
            self._last = note
            if self._process.stdin is not None:
                self._process.stdin.write(to_line(note))

    def _read_verdicts(self) -> None:
        for replacements_left in reversed(range(MOST_SIDECARS)):
            stream = self._process.stdout
            while stream is not None and (line := stream.readline(LONGEST_LINE)):
                verdict = from_line(line, LossVerdict)
                if verdict is not None and not self._over.is_set():
                    self._end(verdict.message)
            self._process.wait()
            if self._over.is_set() or not replacements_left:
                return
            with self._lock:
                self._config = msgspec.structs.replace(self._config, replaces=True)
                self._process = self._start()

    def _replace_stopped(self) -> None:
        """Kill a sidecar that stays stopped: it sees nothing, and a new one takes its place."""
        longest, looks = SIDECAR_STOPPED_SHARE * self._config.limit / LOOK_SECONDS, 0
        while not self._over.wait(LOOK_SECONDS):
            # Looks count, not seconds: together with this process, it may be stopped.
            looks = looks + 1 if process_state(self._process.pid).is_stopped else 0
            if looks > longest:
                self._process.kill()
                looks = 0


def end_with_stacks(run: str, rank: int, message: str) -> None:
    """Record the stacks of all threads, and end this process at once with code 76."""
    directory = RunDirectory(Path(run))
    with suppress(OSError):
        if directory.config.is_file():
            path = directory.stacks(rank)
            path.parent.mkdir(exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                moment = time.strftime("%Y-%m-%d %H:%M:%S")
                file.write(f"\n{moment} process {os.getpid()} ends: {message}\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)
    os._exit(RESTARTABLE)
