"""What stands around a command on another machine, so that it never outlives its launcher.

    python -m unisono.launch.remote_wrapper [--run DIR]
        [--meet ADDRESS --workers N] -- COMMAND …

Orders come as lines of standard input: TERM and KILL; empty ones only say that the launcher
is alive. When the input ends, or when nothing came for a minute, the launcher is gone: the
command is asked to stop, and killed if it does not. What it has left behind is killed, too.
"""

import argparse
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from unisono.exit_codes import PREEMPTED
from unisono.records.status import was_preempted
from unisono.source_address import source_address

ALIVE_EVERY_SECONDS = 10.0
SILENCE_SECONDS = 60.0
# Some more than the 30 seconds that torchrun gives its workers to save.
GRACE_SECONDS = 40.0
LAST_WORDS_SECONDS = 3.0
STOP, KILL = "TERM", "KILL"
NOT_STARTED = 127
PR_SET_CHILD_SUBREAPER = 36
AT_ONCE = 65536


def main(words: list[str]) -> int:
    """Run the command and return its exit code: 75 if the run was stopped and has saved."""
    options = _read(words)
    began = time.time()
    # Orphans become our children, so that none can hide from `_kill_all`.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        process = _start(options)
    except OSError as error:
        sys.stderr.write(f"error: {options.command[0]} cannot be started: {error.strerror}\n")
        return NOT_STARTED
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: process.terminate())
    relays = [
        _in_background(_relay, source, into)
        for source, into in ((process.stdout, 1), (process.stderr, 2))
    ]
    _in_background(_obey, process)
    code = process.wait()
    _kill_all()
    deadline = time.monotonic() + LAST_WORDS_SECONDS
    for relay in relays:
        relay.join(timeout=max(0.0, deadline - time.monotonic()))
    if code and options.run and was_preempted(Path(options.run), since=began):
        return PREEMPTED
    return 128 - code if code < 0 else code


def surroundings(meet: str, workers: int, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what torchrun has to be told of this machine, as far as nobody has done so.

    Its address is the one from which the kernel sends to the meeting point.
    """
    cores = len(os.sched_getaffinity(0))
    found = {
        "OMP_NUM_THREADS": str(max(1, cores // workers)),
        "PET_LOCAL_ADDR": source_address(meet),
    }
    return {name: value for name, value in found.items() if value and name not in variables}


def _read(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="unisono.launch.remote_wrapper")
    parser.add_argument("--run", default="")
    parser.add_argument("--meet", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(words)


def _start(options: argparse.Namespace) -> subprocess.Popen[bytes]:
    further = surroundings(options.meet, options.workers, os.environ) if options.meet else {}
    return subprocess.Popen(
        options.command,
        env={**os.environ, **further, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def _in_background(function: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _relay(source: IO[bytes], into: int) -> None:
    """Pass on what the command writes; when nobody listens any more, it may go on writing."""
    heard = True
    while data := os.read(source.fileno(), AT_ONCE):
        while heard and data:
            try:
                data = data[os.write(into, data) :]
            except OSError:
                heard = False


def _obey(process: subprocess.Popen[bytes]) -> None:
    """Carry out orders as long as there is somebody to give them, then end the command."""
    pending = b""
    while select.select([0], [], [], SILENCE_SECONDS)[0]:
        data = os.read(0, AT_ONCE)
        if not data:
            break
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            if line == STOP.encode():
                process.terminate()
            elif line == KILL.encode():
                _kill_all()
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _kill_all()


def _kill_all() -> None:
    """Kill every process below this one, also those that are made meanwhile."""
    me = psutil.Process()
    while living := [p for p in me.children(recursive=True) if _lives(p)]:
        for process in living:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # Threads may still wait for input; there is nothing left to do for them.
    sys.stdout.flush()
    os._exit(code)
