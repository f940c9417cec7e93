"""`python -m unisono.monitor`: sample this machine until the worker that started it ends."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from unisono.monitor.sampler import MOST_SAMPLE_BYTES, Sampler, next_look
from unisono.monitor.worker import SamplerConfig
from unisono.records.events import Warned
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import SamplerEvent, to_line
from unisono.small_files import LineWriter

STANDARD_INPUT = 0
NICENESS = 5  # training comes first


def main() -> None:
    """Read the worker's settings from standard input; sample until that input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the sampler ends with its worker, not before
    os.nice(NICENESS)
    try:
        orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=SamplerConfig)
    except msgspec.DecodeError:
        sys.exit("a training process starts the sampler and sends it its settings")
    try:
        log = SampleLog(orders)
    except OSError as error:
        sys.exit(f"warning: this machine is not sampled: {error}")
    log.keep()


class SampleLog:
    """Writes the samples of a machine to its file."""

    def __init__(self, orders: SamplerConfig) -> None:
        self._orders = orders
        path = RunDirectory(Path(orders.run)).monitor(orders.rank)
        self._lines = LineWriter(path)
        self._bytes = path.stat().st_size
        self._said: set[str] = set()

    def keep(self) -> None:
        """Take samples until the worker ends, and a last one after that."""
        orders, began = self._orders, time.monotonic()
        sampler = Sampler(orders.rank, orders.pids, orders.every, orders.gpus)
        self._try(sampler.introduce)
        last = began
        while self._bytes < MOST_SAMPLE_BYTES:
            self._try(sampler.look)
            if not _worker_is_there(next_look(last, orders.every, began, time.monotonic())):
                self._try(sampler.look)
                return
            last = time.monotonic()
        self._warn(f"the file of samples has {MOST_SAMPLE_BYTES >> 20} MiB: sampling ends")

    def _try(self, look: Callable[[], SamplerEvent]) -> None:
        # Whatever fails here, training goes on, and so does sampling.
        try:
            self._write(look())
        except Exception as error:  # noqa: BLE001
            self._warn(f"the machine could not be sampled: {type(error).__name__}: {error}")

    def _write(self, event: SamplerEvent) -> None:
        line = to_line(event)
        self._lines.write(line)
        self._bytes += len(line) + 1

    def _warn(self, message: str) -> None:
        if message in self._said:
            return
        self._said.add(message)
        try:
            self._write(Warned(time=time.time(), step=0, message=message))
        except OSError:  # a full disk: the checkpoints will say so
            return


def _worker_is_there(until: float) -> bool:
    """Wait; return whether the worker still holds our standard input open."""
    ready, _, _ = select.select([STANDARD_INPUT], [], [], max(0.0, until - time.monotonic()))
    return not ready or bool(os.read(STANDARD_INPUT, 1))


if __name__ == "__main__":
    main()
