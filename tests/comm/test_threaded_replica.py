"""Lanes: several micro-batches at once in one process."""

import gc
import threading

import pytest
import torch
from torch import nn

from unisono.comm.group import Solo
from unisono.comm.protocol import World
from unisono.comm.strategies.all_reduce import SummedReplica
from unisono.comm.strategies.threaded_replica import ThreadedReplica, replica_alone, twin_of
from unisono.models.dropout import Dropout, seed_rng
from unisono.stopwatch import Stopwatch
from unisono.thread_lanes import Lanes, in_lane


class Tied(nn.Module):
    """Two uses of one matrix, with dropout between them, and a weight nobody uses."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.unused = nn.Parameter(torch.ones(3))
        self.dropout = Dropout(0.5)

    def forward(self, x):
        return self.second(self.dropout(self.first(x)))


def loss_of(model, batch):
    seed_rng(int(batch[0, 0] * 1000))
    return model(batch).square().sum()


def model_and_batches(count):
    torch.manual_seed(3)
    return Tied(), [torch.randn(4, 6).abs() for _ in range(count)]


def gradients(replica, batches):
    replica.module.zero_grad()
    loss = replica.gradients(batches, loss_of, Stopwatch())
    named = replica.module.named_parameters()
    return loss, {name: None if p.grad is None else p.grad.clone() for name, p in named}


@pytest.mark.parametrize("lanes", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_lanes_find_the_gradient_that_one_thread_finds(lanes, count):
    model, batches = model_and_batches(count)
    loss, expected = gradients(SummedReplica(model, Solo()), batches)
    found_loss, found = gradients(ThreadedReplica(model, lanes), batches)
    assert found_loss == pytest.approx(float(loss))
    assert found["unused"] is None is expected.pop("unused")
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)


def test_the_same_bits_every_time():
    model, batches = model_and_batches(7)
    replica = ThreadedReplica(model, 3)
    first = gradients(replica, batches)
    for _ in range(20):
        loss, again = gradients(replica, batches)
        assert loss == first[0]
        assert all(torch.equal(again[n], g) for n, g in first[1].items() if g is not None)


def test_twins_share_weights_and_what_ties_them_but_no_gradients():
    model, _ = model_and_batches(1)
    twin = twin_of(model)
    assert twin.first.weight is twin.second.weight
    assert twin.first.weight is not model.first.weight
    assert twin.first.weight.data_ptr() == model.first.weight.data_ptr()


def test_weights_that_were_exchanged_are_those_the_lanes_use():
    model, batches = model_and_batches(4)
    replica = ThreadedReplica(model, 2)
    gradients(replica, batches)
    with torch.no_grad():
        for weight in model.parameters():
            weight.data = weight.data * 2
    _, expected = gradients(SummedReplica(model, Solo()), batches)
    _, found = gradients(replica, batches)
    torch.testing.assert_close(found["first.weight"], expected["first.weight"])


def test_threads_are_as_before_and_time_is_told():
    model, batches = model_and_batches(4)
    before, stopwatch = torch.get_num_threads(), Stopwatch()
    ThreadedReplica(model, 2).gradients(batches, loss_of, stopwatch)
    _, parts = stopwatch.lap()
    assert torch.get_num_threads() == before
    assert parts["forward"] > 0
    assert parts["backward"] > 0


@pytest.mark.parametrize("lane", [0, 1])
def test_a_failure_in_any_lane_is_the_callers_after_all_have_ended(lane):
    ended = threading.Event()

    def fail():
        raise ValueError("no such word")

    def work():
        ended.set()

    jobs = [fail, work] if lane == 0 else [work, fail]
    lanes = Lanes(2, lambda: None)
    with pytest.raises(ValueError, match="no such word"):
        lanes.run(jobs)
    assert ended.is_set()
    assert lanes.run([in_lane, in_lane]) == [False, True]


def test_nothing_is_left_of_lanes_that_nobody_uses():
    before = threading.active_count()
    model, batches = model_and_batches(4)
    gradients(ThreadedReplica(model, 3), batches)
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("lane"):
            thread.join(timeout=600)
    assert threading.active_count() <= before


def test_one_thread_or_a_gpu_has_no_lanes():
    model, _ = model_and_batches(1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert isinstance(replica_alone(model, Solo()), SummedReplica)
        torch.set_num_threads(2)
        assert isinstance(replica_alone(model, Solo()), ThreadedReplica)
        on_gpu = Solo(World(device="cuda:0"))
        assert isinstance(replica_alone(model, on_gpu), SummedReplica)
    finally:
        torch.set_num_threads(before)
