"""`python -m unisono.heartbeat`: the sidecar process that a worker starts and configures."""

import os
import signal
import sys

from unisono.heartbeat.messages import SidecarConfig, from_line
from unisono.heartbeat.sidecar import Sidecar

EARS, MOUTH = 0, 1


def main() -> None:
    """Watch the process that started this one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    orders = from_line(read_line(EARS), SidecarConfig)
    if orders is None:
        sys.exit("started by hand? It is told on its standard input what to do")
    if os.getppid() == orders.me.pid:  # else it is gone already, and its number means nothing
        Sidecar(orders, EARS, MOUTH).run()
    os._exit(0)  # threads that still wait for an answer do not matter


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
