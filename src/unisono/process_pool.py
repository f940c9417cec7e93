"""Apply a task to many items, in several processes or in this one.

Results come in the order of the items, and only a few items are in flight at a time. The
processes never outlive this one, and Ctrl-C reaches this one alone.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Literal, TypeVar

from unisono.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")
# "spawn": new processes, which receive the task. "fork": copies of this process, which has
# what the task needs in memory; it must not have computed on several threads before.
StartMethod = Literal["spawn", "fork"]


class InProcess(Generic[Item, Result]):
    """A pool without other processes: this one handles one item after the other."""

    count = 1

    def __init__(self, task: Callable[[Item], Result]) -> None:
        self._task = task

    def results(self, items: Iterable[Item]) -> Iterator[Result]:
        return map(self._task, items)

    def begin(self, item: Item) -> "Future[Result]":
        future: Future[Result] = Future()
        future.set_result(self._task(item))
        return future

    def finish(self, future: "Future[Result]") -> Result:
        return future.result()


class ProcessPool(Generic[Item, Result]):
    """Other processes, each with its own copy of the task."""

    def __init__(self, task: Callable[[Item], Result], count: int, start: StartMethod) -> None:
        self.count = count
        self._in_flight = count + 2
        self._children: dict[int, BaseProcess] = {}
        self._before = {child.pid for child in multiprocessing.active_children()}
        self._executor = ProcessPoolExecutor(
            count, multiprocessing.get_context(start), _start, (task,)
        )

    def results(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result for each item, in order."""
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(self.begin(item))
            if len(waiting) == self._in_flight:
                yield self.finish(waiting.popleft())
        while waiting:
            yield self.finish(waiting.popleft())

    def begin(self, item: Item) -> "Future[Result]":
        """Start one item and return immediately."""
        # A new process inherits the signal mask: Ctrl-C, which a terminal sends to all, must
        # never interrupt it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._executor.submit(_work, item)
        except BrokenProcessPool as error:
            raise self._killed() from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._remember_children()

    def finish(self, future: "Future[Result]") -> Result:
        """Return the result, or raise the error of the worker."""
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise self._killed() from error

    def end(self, *, at_once: bool) -> None:
        """End all processes; `at_once` kills them in the middle of their work."""
        if at_once:
            for child in self._children.values():
                child.kill()
        self._executor.shutdown(cancel_futures=at_once)

    def _remember_children(self) -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None and child.pid not in self._before:
                self._children[child.pid] = child

    def _killed(self) -> DataError:
        self._executor.shutdown()  # waits for all of them, so that their exit codes are known
        codes = [child.exitcode for child in self._children.values()]
        # When one is missing, the executor ends the others with SIGTERM.
        signals = {-code for code in codes if code and code < 0} - {signal.SIGTERM}
        how = f"killed by signal {min(signals)}" if signals else "killed"
        memory = ", probably because memory ran out" if signals == {signal.SIGKILL} else ""
        return DataError(
            f"a worker was {how}{memory}",
            where=f"one of {len(codes)} workers",
            fix="start again with fewer --workers, or where there is more memory",
        )


@contextmanager
def worker_pool(
    task: Callable[[Item], Result], workers: int, start: StartMethod = "spawn"
) -> Iterator[InProcess[Item, Result] | ProcessPool[Item, Result]]:
    """Yield a pool of `workers` processes that apply `task`; 0 means this process."""
    if not workers:
        yield InProcess(task)
        return
    pool = ProcessPool(task, workers, start)
    try:
        yield pool
    except BaseException:
        pool.end(at_once=True)
        raise
    pool.end(at_once=False)


_task: Callable[[Any], Any]


def _start(task: Callable[[Any], Any]) -> None:
    global _task
    _task = task
    gc.disable()  # the tasks make no cycles, and looking for them takes a fifth of the time
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _work(item: Any) -> Any:
    return _task(item)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
