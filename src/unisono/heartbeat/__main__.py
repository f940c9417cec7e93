"""`python -m unisono.heartbeat`: the sidecar process that a worker starts and configures."""

import os
import signal
import sys
from pathlib import Path

from unisono.heartbeat.messages import SidecarConfig, from_line
from unisono.heartbeat.sidecar import Sidecar

FROM_WORKER, TO_WORKER = 0, 1  # standard input and output


def main() -> None:
    """Look after the process that started this one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    config = from_line(read_line(FROM_WORKER), SidecarConfig)
    if config is None:
        sys.exit("a worker starts this program and writes its configuration to standard input")
    if os.getppid() == config.worker.pid:  # otherwise it has ended, and its pid means nothing
        Sidecar(config, FROM_WORKER, TO_WORKER).run()
        if config.rank == 0 and not config.port:
            Path(config.address).unlink(missing_ok=True)
    os._exit(0)  # threads that still wait for a reply do not matter


def read_line(source: int) -> bytes:
    """Read up to the end of a line, and nothing after it."""
    line = b""
    while not line.endswith(b"\n"):
        letter = os.read(source, 1)
        if not letter:
            break
        line += letter
    return line


if __name__ == "__main__":
    main()
