"""Exchanges of several messages each, one after the other, beside the computing.

Processes must send the messages of one bucket before those of the next, in the same order
everywhere. Whoever sent each message when the one before it has arrived would mix up those of
two buckets; so there is one line, and each exchange has it for itself.
"""

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

import torch
from torch import Tensor
from torch.futures import Future

Job = tuple[Callable[[], Tensor], Future[Tensor]]


class Beside:
    """Does jobs in the order in which they come: in a thread, or in a stream of a GPU."""

    def __init__(self, device: str) -> None:
        self._stream = torch.cuda.Stream(device) if device.startswith("cuda") else None
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        if self._stream is None:
            # The thread knows the queue only: what it knew would never be freed.
            threading.Thread(
                target=_work, args=(self._jobs,), name="exchange", daemon=True
            ).start()
            weakref.finalize(self, self._jobs.put, None)

    def do(self, job: Callable[[], Tensor]) -> Future[Tensor]:
        """Return what `job` will return."""
        if self._stream is not None:
            return _in_stream(self._stream, job)
        future: Future[Tensor] = Future()
        self._jobs.put((job, future))
        return future


def _in_stream(stream: torch.cuda.Stream, job: Callable[[], Tensor]) -> Future[Tensor]:
    # Nothing waits here: messages and products are only asked for, in this order.
    stream.wait_stream(torch.cuda.current_stream())
    future: Future[Tensor] = Future(devices=[stream.device])
    with torch.cuda.stream(stream):
        future.set_result(job())
    return future


def _work(jobs: "SimpleQueue[Job | None]") -> None:
    while (item := jobs.get()) is not None:
        job, future = item
        try:
            result = job()
        except Exception as error:  # noqa: BLE001  whoever waits for it is to have it
            future.set_exception(error)  # type: ignore[arg-type]
        else:
            future.set_result(result)
            del result
        del item, job, future  # until the next one comes, nothing is kept
