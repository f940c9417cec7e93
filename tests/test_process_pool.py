import multiprocessing
import os
import signal
import time
from functools import partial
from multiprocessing.context import ForkProcess, SpawnProcess

import pytest

from unisono.errors import DataError
from unisono.process_pool import worker_pool

pytestmark = pytest.mark.ranks
KINDS = {"spawn": SpawnProcess, "fork": ForkProcess}


@pytest.fixture(params=KINDS)
def start(request):
    return request.param


def workers(start):
    """Return our own processes: tests of other parts may keep some too."""
    children = multiprocessing.active_children()
    return [child for child in children if isinstance(child, KINDS[start])]


def square(number):
    time.sleep(0.02 if number % 3 == 0 else 0)
    return number * number, os.getpid()


def square_among(directory, count, number):
    """As `square`; the first item waits until so many processes have begun with one."""
    (directory / str(os.getpid())).touch()
    deadline = time.monotonic() + 600
    while number == 0 and len(list(directory.iterdir())) < count:
        assert time.monotonic() < deadline, "nobody else works"
        time.sleep(0.01)
    return square(number)


def fail_at_five(number):
    if number == 5:
        raise DataError("five", where="at 5", fix="leave it out")
    return number


def die_at_five(number):
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleep_long(number):
    time.sleep(600)


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_the_order_of_the_items(workers, start, tmp_path):
    task = partial(square_among, tmp_path, workers)
    with worker_pool(task, workers, start) as pool:
        assert pool.count == max(1, workers)
        results = list(pool.results(range(40)))
    assert [result for result, _ in results] == [number * number for number in range(40)]
    assert len({process for _, process in results} - {os.getpid()}) == workers


def test_only_a_few_items_are_in_work(start):
    taken = []

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    with worker_pool(square, 2, start) as pool:
        for count, _ in enumerate(pool.results(items()), start=1):
            assert len(taken) - count <= 4


def test_an_error_comes_through_as_it_was_and_nobody_works_on(start):
    with (
        pytest.raises(DataError) as caught,
        worker_pool(fail_at_five, 2, start) as pool,
    ):
        list(pool.results(range(1000)))
    assert (caught.value.what, caught.value.where) == ("five", "at 5")
    assert str(caught.value).endswith("fix:   leave it out")
    assert workers(start) == []


def test_a_worker_that_was_killed_is_told_without_a_traceback(start):
    with (
        pytest.raises(DataError, match="a worker was killed by signal 9, probably .* memory"),
        worker_pool(die_at_five, 2, start) as pool,
    ):
        list(pool.results(range(1000)))
    assert workers(start) == []


def test_leaving_ends_work_that_would_take_long(start):
    with pytest.raises(KeyboardInterrupt), worker_pool(sleep_long, 2, start) as pool:
        pool.begin(1)
        pool.begin(2)
        raise KeyboardInterrupt
    assert workers(start) == []


def test_forked_workers_have_what_this_process_has_in_memory():
    known = {"seven": 7}
    with worker_pool(lambda name: known[name], 2, "fork") as pool:
        assert list(pool.results(["seven", "seven"])) == [7, 7]
