"""Weights that must be the same everywhere."""

import numpy as np
import pytest
import torch
from torch import nn

from unisono.comm.settings import Sync
from unisono.errors import RunError
from unisono.train.checksums import broadcast_weights, checksums, compare_weights, difference


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3))


def flip_a_bit(weight, place=0, bit=0):
    bits = weight.detach().view(torch.int32).flatten()
    bits[place] ^= 1 << bit


@pytest.mark.parametrize("bit", [0, 13, 30])
def test_one_bit_anywhere_changes_the_checksum_of_its_tensor_and_no_other(bit):
    right, wrong = model(), model()
    flip_a_bit(wrong[1].weight, place=17, bit=bit)
    before, after = (checksums(list(m.parameters())) for m in (right, wrong))
    assert np.flatnonzero(before != after).tolist() == [2]


def test_half_precision_counts_as_well():
    right, wrong = model().half(), model().half()
    wrong[0].bias.data[2] += 1e-3
    before, after = (checksums(list(m.parameters())) for m in (right, wrong))
    assert np.flatnonzero(before != after).tolist() == [1]


def test_the_rank_that_differs_from_most_is_named_and_of_two_the_second():
    same, other = np.array([1, 2, 3]), np.array([1, 9, 3])
    assert difference("abc", [same, same, same]) == ""
    assert difference("abc", [other, same, same]) == "rank 0 in b"
    assert difference("abc", [same, other]) == "rank 1 in b"


def compare_on(comm, wrong_rank, sync, step):
    weights = model()
    if comm.world.rank == wrong_rank:
        flip_a_bit(weights[1].weight)
    try:
        return [event.message for event in compare_weights(comm, weights, sync, step)]
    except RunError as error:
        return error.what


def begin_on(comm):
    weights = model()
    if comm.world.rank == 1:
        flip_a_bit(weights[1].weight, place=3)
    broadcast_weights(comm, weights)
    return [weight.tolist() for weight in weights.parameters()]


@pytest.mark.ranks
def test_processes_that_drew_other_weights_take_the_leading_ones(ranks):
    assert ranks.run(begin_on) == [[w.tolist() for w in model().parameters()]] * ranks.size


@pytest.mark.ranks
def test_real_processes_with_different_weights_all_stop_and_name_rank_and_step(ranks):
    sync = Sync(check_weights_every_steps=10)
    assert ranks.run(compare_on, -1, sync, 10) == [[]] * ranks.size
    assert ranks.run(compare_on, 1, sync, 11) == [[]] * ranks.size  # not looked at
    words = "at step 20 the weights differ between processes: rank 1 in 1.weight"
    assert ranks.run(compare_on, 1, sync, 20) == [words] * ranks.size
    warn = Sync(check_weights="warn", check_weights_every_steps=10)
    assert ranks.run(compare_on, 1, warn, 20) == [[words]] * ranks.size
    off = Sync(check_weights="off", check_weights_every_steps=10)
    assert ranks.run(compare_on, 1, off, 20) == [[]] * ranks.size
