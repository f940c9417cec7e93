"""The same task for many items, done by several processes or by this one.

Results come in the order of the items, and only a few items are in work at a time. The
processes never outlive this one, and Ctrl-C is for this one alone to answer.
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
# "spawn": new processes, to which the task is sent. "fork": copies of this one, which has
# what the task needs in memory; it must not have begun to compute on several threads.
Start = Literal["spawn", "fork"]


class AtOnce(Generic[Item, Result]):
    """This process, one item after the other."""

    count = 1

    def __init__(self, task: Callable[[Item], Result]) -> None:
        self._task = task

    def results(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result for each item, in order."""
        return map(self._task, items)

    def begin(self, item: Item) -> "Future[Result]":
        """Do one item."""
        future: Future[Result] = Future()
        future.set_result(self._task(item))
        return future

    def finish(self, future: "Future[Result]") -> Result:
        """Return a result."""
        return future.result()


class Pool(Generic[Item, Result]):
    """Other processes, each with its own copy of the task."""

    def __init__(self, task: Callable[[Item], Result], count: int, start: Start) -> None:
        self.count = count
        self._in_work = count + 2
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
            if len(waiting) == self._in_work:
                yield self.finish(waiting.popleft())
        while waiting:
            yield self.finish(waiting.popleft())

    def begin(self, item: Item) -> "Future[Result]":
        """Begin with one item and return at once."""
        # A new process inherits what is held back: Ctrl-C, which a terminal sends to all,
        # shall never interrupt it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._executor.submit(_work, item)
        except BrokenProcessPool as error:
            raise self._killed() from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._remember_children()

    def finish(self, future: "Future[Result]") -> Result:
        """Return a result, or raise what happened instead."""
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise self._killed() from error

    def end(self, *, at_once: bool) -> None:
        """End all processes, in the middle of their work if need be."""
        if at_once:
            for child in self._children.values():
                child.kill()
        self._executor.shutdown(cancel_futures=at_once)

    def _remember_children(self) -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None and child.pid not in self._before:
                self._children[child.pid] = child

    def _killed(self) -> DataError:
        self._executor.shutdown()  # waits for all of them, and then their codes are known
        codes = [child.exitcode for child in self._children.values()]
        # The others are told to end (SIGTERM) as soon as one is missing.
        signals = {-code for code in codes if code and code < 0} - {signal.SIGTERM}
        how = f"killed by signal {min(signals)}" if signals else "killed"
        memory = ", probably because memory ran out" if signals == {signal.SIGKILL} else ""
        return DataError(
            f"a worker was {how}{memory}",
            where=f"one of {len(codes)} workers",
            fix="start again with fewer --workers, or where there is more memory",
        )


@contextmanager
def working(
    task: Callable[[Item], Result], workers: int, start: Start = "spawn"
) -> Iterator[AtOnce[Item, Result] | Pool[Item, Result]]:
    """Yield `workers` other processes that do `task`; if none, this one does it itself."""
    if not workers:
        yield AtOnce(task)
        return
    pool = Pool(task, workers, start)
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
    gc.disable()  # the tasks make no cycles, and looking for some takes a fifth of the time
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _work(item: Any) -> Any:
    return _task(item)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
