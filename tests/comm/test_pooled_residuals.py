"""Checkpoints of many machines: the leading process saves the sum of all residuals."""

import pytest
import torch
import torch.distributed as dist

from support.exchanges import SMALL_BUCKETS, exact_gradients, exchange, new_model, residual_of
from unisono.comm.strategies import compressed
from unisono.comm.strategies.compressed import Compressed
from unisono.comm.strategies.strategy_state import collect, deal

pytestmark = pytest.mark.ranks


def saved_by_many(comm):
    """Save as more machines than there are do; go on, and continue elsewhere."""
    few, compressed.FEW_MACHINES = compressed.FEW_MACHINES, 1
    try:
        return saved(comm)
    finally:
        compressed.FEW_MACHINES = few


def saved(comm):
    rank, size = comm.world.rank, comm.world.size
    one, other = (Compressed(4, SMALL_BUCKETS).attach(new_model(), comm) for _ in range(2))
    sent = sum(exchange(one, rank, step) for step in (1, 2))
    before = comm.sum(residual_of(one))
    one.memory.before_save()
    pooled = residual_of(one)
    gathers, real = [], dist.gather
    dist.gather = lambda *args, **kwargs: (gathers.append(1), real(*args, **kwargs))
    try:
        found = collect(comm, one.memory.state())
    finally:
        dist.gather = real
    other.memory.load(deal(comm, found))
    exchange(other, rank, 0, moved=False)  # DDP makes its buckets anew after the first
    row, same = exchange(one, rank, 3), exchange(other, rank, 3)
    assert torch.equal(row, same)
    assert torch.equal(residual_of(one), residual_of(other))
    wanted = sum(exact_gradients(one.module, size, step) for step in (1, 2, 3))
    lost = (sent + row + comm.sum(residual_of(one)) - wanted).abs().max() / wanted.abs().max()
    return before, pooled, sorted(found), len(gathers), float(lost)


@pytest.mark.parametrize("group", ["ranks", "three_by_two"])
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_residuals_of_many_machines_are_saved_as_one_sum(request, group, ranks):
    processes = request.getfixturevalue(group)
    found = processes.run(saved_by_many)
    names = [f"0/{name}/gradient_left_over" for name, _ in new_model().named_parameters()]
    assert [row[2] for row in found] == [sorted(names), *([[]] * (processes.size - 1))]
    for rank, (before, pooled, _, gathers, lost) in enumerate(found):
        torch.testing.assert_close(pooled, before if rank == 0 else torch.zeros_like(before))
        assert gathers == 0
        assert lost < 2e-6


def saved_by_few(comm):
    replica = Compressed(4, SMALL_BUCKETS).attach(new_model(), comm)
    exchange(replica, comm.world.rank, 1)
    before = residual_of(replica)
    replica.memory.before_save()
    return torch.equal(residual_of(replica), before)


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_each_of_few_machines_keeps_its_own(ranks):
    assert ranks.run(saved_by_few) == [True] * 4
