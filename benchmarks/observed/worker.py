"""`unisono` that writes down when its updates began, and may look at nothing else.

Torchrun starts this file in its place. `TIMES` is the file for rank 0's times. With
`UNOBSERVED` the run has no timers, no events of updates (for TensorBoard neither), and nobody
looks for findings. The product has no such switch; what it does is taken out here.
"""

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from unisono.cli import main  # before torch: it says how many threads numpy may have

# isort: split
from unisono.comm.strategies import ddp
from unisono.live.live_diagnosis import LiveDiagnosis
from unisono.records.events import StepTaken
from unisono.records.recorder import Recorder
from unisono.stopwatch import Stopwatch
from unisono.train import loop


def note_times() -> None:
    """Take note of the moment at which each update begins; write them down at the end."""
    real, close, times = loop.take_step, Recorder.close, list[float]()

    def noted(*arguments: Any) -> Any:
        times.append(time.perf_counter())
        return real(*arguments)

    def write_down(self: Recorder) -> None:
        close(self)
        if os.environ.get("RANK", "0") == "0":
            Path(os.environ["TIMES"]).write_text("\n".join(map(repr, times)))

    loop.take_step = noted
    Recorder.close = write_down  # type: ignore[method-assign]


def look_away() -> None:
    """Take out timers, events of updates, and the search for findings."""
    Stopwatch.time = lambda self, part: nullcontext()  # type: ignore[method-assign,return-value]
    Stopwatch.add = lambda self, part, seconds: None  # type: ignore[method-assign]
    LiveDiagnosis.saw = lambda self, event: []  # type: ignore[method-assign]
    ddp._send_bucket = lambda sender, bucket: sender.send(bucket)
    Recorder.write = _without_steps(Recorder.write)  # type: ignore[method-assign]


def _without_steps(real: Callable[..., None]) -> Callable[..., None]:
    def write(self: Recorder, event: Any) -> None:
        if not isinstance(event, StepTaken):
            real(self, event)

    return write


if __name__ == "__main__":
    note_times()
    if os.environ.get("UNOBSERVED"):
        look_away()
    main()
