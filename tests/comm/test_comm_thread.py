"""Exchanges one after the other, beside the computing."""

import gc
import threading

import pytest
import torch

from unisono.comm.strategies.packed_gather import CommThread


def test_jobs_are_done_in_their_order_and_each_gives_its_result():
    beside, order = CommThread("cpu"), []

    def job(number):
        order.append(number)
        return torch.tensor(number)

    futures = [beside.do(lambda n=number: job(n)) for number in range(50)]
    assert [int(future.wait()) for future in futures] == list(range(50))
    assert order == list(range(50))


def test_whoever_waits_for_a_job_that_failed_is_told_and_the_next_one_is_done():
    beside = CommThread("cpu")

    def fail():
        raise RuntimeError("connection closed by peer")

    failed, well = beside.do(fail), beside.do(lambda: torch.ones(1))
    with pytest.raises(RuntimeError, match="connection closed by peer"):
        failed.wait()
    assert float(well.wait()) == 1.0


def test_the_thread_ends_with_its_owner_and_keeps_nothing():
    def threads():
        return [one for one in threading.enumerate() if one.name == "exchange"]

    before, beside = threads(), CommThread("cpu")
    [mine] = set(threads()) - set(before)
    beside.do(lambda: torch.ones(1)).wait()
    del beside
    gc.collect()
    mine.join(timeout=600)
    assert not mine.is_alive()
