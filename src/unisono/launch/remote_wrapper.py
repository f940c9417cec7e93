"""Wraps a command on another machine, so that it never outlives its launcher.

    python -m unisono.launch.remote_wrapper [--run DIR]
        [--rendezvous ADDRESS --workers N] [--secret] [--firewall PORT,ADDRESS,…]
        [--detached NODE] -- COMMAND …

With --secret, the first line of standard input is the secret of the run, which the command
finds in its environment; an argument would show it to every user of the machine. After that
the launcher writes lines: TERM, KILL, or an empty line to show that it is alive. When the input
ends, or is silent for a minute, the launcher is gone: the wrapper asks the command to stop, and
kills it if it does not. Processes it left behind are killed, too. With --firewall, only those
addresses can connect to the ports of the run until the command ends.

With --detached NODE, the wrapper goes on in a session of its own when the launcher is gone. Its
output and its state are then files in `DIR/stream` (`stream.detached`); SIGTERM asks the
command to stop, SIGQUIT kills it.
"""

import argparse
import ctypes
import errno
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

from unisono.errors import UnisonoError
from unisono.exit_codes import PREEMPTED
from unisono.launch.firewall import admitting_only
from unisono.launch.stream.detached import detach
from unisono.parent_process import parent_variables
from unisono.records.status import was_preempted
from unisono.secure.secret import SECRET
from unisono.source_address import source_address

KEEP_ALIVE_SECONDS = 10.0
LAUNCHER_SILENT_SECONDS = 60.0
# A little more than the 30 seconds that torchrun gives its workers to save.
STOP_SECONDS = 40.0
LAST_RELAY_SECONDS = 3.0
STOP, KILL = "TERM", "KILL"
NOT_STARTED = 127
PR_SET_CHILD_SUBREAPER = 36
READ_BYTES = 65536
SECRET_LINE_BYTES = 200


def main(words: list[str]) -> int:
    """Run the command and return its exit code, or 75 if the run was stopped and has saved."""
    options = _read(words)
    if options.detached < 0:
        return _guarded(options, "")
    secret = _first_line(sys.stdin.fileno()) if options.secret else ""
    return detach(Path(options.run), options.detached, lambda: _guarded(options, secret))


def _guarded(options: argparse.Namespace, secret: str) -> int:
    if not options.firewall:
        return _run(options, secret)
    port, *machines = options.firewall.split(",")
    try:
        with admitting_only(machines, int(port)):
            return _run(options, secret)
    except UnisonoError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _run(options: argparse.Namespace, secret: str) -> int:
    began = time.time()
    # Orphans become our children, so that `_kill_all` finds them.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        process = _start(options, secret)
    except OSError as error:
        sys.stderr.write(f"error: cannot start {options.command[0]}: {error.strerror}\n")
        return NOT_STARTED
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: process.terminate())
    signal.signal(signal.SIGQUIT, lambda *_: _kill_all())
    relays = [
        _in_background(_relay, source, into)
        for source, into in ((process.stdout, 1), (process.stderr, 2))
    ]
    if options.detached < 0:
        _in_background(_follow_commands, process)
    code = process.wait()
    _kill_all()
    deadline = time.monotonic() + LAST_RELAY_SECONDS
    for relay in relays:
        relay.join(timeout=max(0.0, deadline - time.monotonic()))
    if code and options.run and was_preempted(Path(options.run), since=began):
        return PREEMPTED
    return 128 - code if code < 0 else code


def torchrun_variables(
    rendezvous: str, workers: int, variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that tell torchrun about this machine, unless already set.

    Its address is the one the kernel uses on the route to the rendezvous.
    """
    cores = len(os.sched_getaffinity(0))
    found = {
        "OMP_NUM_THREADS": str(max(1, cores // workers)),
        "PET_LOCAL_ADDR": source_address(rendezvous),
    }
    return {name: value for name, value in found.items() if value and name not in variables}


def _read(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="unisono.launch.remote_wrapper")
    parser.add_argument("--run", default="")
    parser.add_argument("--rendezvous", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--secret", action="store_true")
    parser.add_argument("--firewall", default="")
    parser.add_argument("--detached", type=int, default=-1)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(words)


def _start(options: argparse.Namespace, secret: str) -> subprocess.Popen[bytes]:
    further = (
        torchrun_variables(options.rendezvous, options.workers, os.environ)
        if options.rendezvous
        else {}
    )
    if options.secret:
        further[SECRET] = secret or _first_line(sys.stdin.fileno())
    return subprocess.Popen(
        options.command,
        env={**os.environ, **parent_variables(), **further, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def _first_line(descriptor: int) -> str:
    """Read one line byte by byte, so that no byte of the next is lost in a buffer."""
    line = b""
    while len(line) < SECRET_LINE_BYTES and not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            break
        line += byte
    if not line.strip():
        raise OSError(errno.EPIPE, "the launcher is gone")
    return line.decode("ascii", "replace").strip()


def _in_background(function: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _relay(source: IO[bytes], into: int) -> None:
    """Pass on what the command writes; when nobody reads it any more, discard it."""
    is_read = True
    while data := os.read(source.fileno(), READ_BYTES):
        while is_read and data:
            try:
                data = data[os.write(into, data) :]
            except OSError:
                is_read = False


def _follow_commands(process: subprocess.Popen[bytes]) -> None:
    """Do what the launcher asks; when it is gone, end the command."""
    pending = b""
    while select.select([0], [], [], LAUNCHER_SILENT_SECONDS)[0]:
        data = os.read(0, READ_BYTES)
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
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        _kill_all()


def _kill_all() -> None:
    """Kill every descendant of this process, including those that start meanwhile."""
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
    # Threads may still wait for input, but nothing is left for them to do.
    sys.stdout.flush()
    os._exit(code)
