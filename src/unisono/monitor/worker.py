"""The worker's side of sampling: its settings, and starting and stopping the sampler."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from unisono.records.events import Warned
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import to_line
from unisono.small_files import LineWriter


class SamplerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Sample for the run in directory `run`, whose processes here are `pids`.

    `rank` is that of the worker that starts the sampler, `every` the seconds between samples.
    `gpus` are those of all these processes, in the form of `CUDA_VISIBLE_DEVICES`.
    """

    run: str
    rank: int
    pids: tuple[int, ...]
    every: float
    gpus: tuple[str, ...] = ()


class Monitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sample each machine `every` so often; a fifth as often after an hour."""

    on: bool = True
    every: str = "1 s"


COMMAND = (sys.executable, "-m", "unisono.monitor")
LAST_LOOK_SECONDS = 3.0


class Sampling:
    """The sampler's process: it runs from entering to leaving the `with` block.

    Without settings there is none. Training goes on if it cannot be started.
    """

    def __init__(self, orders: SamplerConfig | None) -> None:
        self._orders = orders
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Sampling":
        if self._orders is not None:
            try:
                self._start(self._orders)
            except OSError as error:
                self._warn(self._orders, error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LAST_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self, orders: SamplerConfig) -> None:
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # Signals to the worker's group, such as Ctrl-C, do not reach it.
            start_new_session=True,
            bufsize=0,
        )
        if self._process.stdin is not None:
            self._process.stdin.write(msgspec.json.encode(orders) + b"\n")

    def _warn(self, orders: SamplerConfig, error: OSError) -> None:
        message = f"the sampler of this machine did not start: {error}"
        with suppress(OSError):
            lines = LineWriter(RunDirectory(Path(orders.run)).monitor(orders.rank))
            lines.write(to_line(Warned(time=time.time(), step=0, message=message)))
            lines.close()
