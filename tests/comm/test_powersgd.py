"""Gradients as products of narrow matrices."""

import math

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel

from support.exchanges import (
    SMALL_BUCKETS,
    batch_of,
    exact_gradients,
    exchange,
    loss_of,
    new_model,
    residual_of,
)
from unisono.comm.protocol import StrategyTensors
from unisono.comm.strategies.powersgd import PowerSgd
from unisono.comm.strategies.strategy_state import collect, deal
from unisono.cost_model.exchange import low_rank_numbers

pytestmark = [pytest.mark.ranks, pytest.mark.parametrize("ranks", [2, 3], indirect=True)]


def sums_over_time(comm, bucket_mb):
    rank, size = comm.world.rank, comm.world.size
    replica = PowerSgd(low_rank=1, warmup_steps=1, bucket_mb=bucket_mb).attach(
        new_model(), comm
    )
    sent, wanted, off = 0, 0, []
    for step in range(1, 6):
        found = exchange(replica, rank, step, scale=2.0**step) / 2.0**step
        exact = exact_gradients(replica.module, size, step)
        off.append(float((found - exact).norm() / exact.norm()))
        sent, wanted = sent + found, wanted + exact
    lost = sent + comm.sum(residual_of(replica)) - wanted
    return found.tolist(), off, float(lost.abs().max() / wanted.abs().max())


@pytest.mark.parametrize("bucket_mb", [SMALL_BUCKETS, 25.0])
def test_exact_at_first_then_narrow_and_what_is_dropped_is_sent_later(ranks, bucket_mb):
    first, *others = ranks.run(sums_over_time, bucket_mb)
    gradient, off, lost = first
    assert all(other[0] == gradient for other in others)
    assert off[0] < 1e-5
    assert all(0.01 < share < 1.5 for share in off[1:])
    assert lost < 1e-5


def numbers_sent(comm, low_rank):
    replica = PowerSgd(low_rank, 0, SMALL_BUCKETS).attach(new_model(), comm)
    for step in range(3):
        exchange(replica, comm.world.rank, step)
    sent, sums = [], dist.all_reduce
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "all_reduce", lambda t: (sent.append(t.numel()), sums(t)))
        exchange(replica, comm.world.rank, 3)
    shapes = [tuple(weight.shape) for weight in replica.module.parameters()]
    return sum(sent), shapes


@pytest.mark.parametrize("low_rank", [1, 2, 4, 16])
def test_as_many_numbers_are_sent_as_physics_says(ranks, low_rank):
    for sent, shapes in ranks.run(numbers_sent, low_rank):
        matrices = [shape for shape in shapes if len(shape) == 2]
        vectors = sum(shape[0] for shape in shapes if len(shape) == 1)
        assert sent == vectors + sum(low_rank_numbers(*shape, low_rank) for shape in matrices)


WARMUP = 2  # DDP makes its final buckets after the first exchange


def beside_torchs_hook(comm, low_rank):
    """Return how far our sums are from those of torch's own hook, from the same start."""
    mine = PowerSgd(low_rank, WARMUP, 25.0).attach(new_model(), comm)
    theirs = DistributedDataParallel(new_model(), gradient_as_bucket_view=True)
    state = PowerSGDState(None, low_rank, start_powerSGD_iter=WARMUP)
    theirs.register_comm_hook(state, powerSGD_hook)
    p, q = (low_rank * sum(w.size(d) for w in narrowed(theirs)) for d in (0, 1))
    state.p_memory_dict[0] = torch.zeros(p)
    state.q_memory_dict[0] = torch.randn(q, generator=torch.Generator().manual_seed(1))
    mine.memory.load(StrategyTensors(shared={"powersgd/q/0": state.q_memory_dict[0].clone()}))
    off = []
    for step in range(1, WARMUP + 5):
        theirs.zero_grad()
        loss_of(theirs, batch_of(comm.world.rank, step)).backward()
        mean = torch.cat([weight.grad.flatten() for weight in theirs.parameters()])
        found = exchange(mine, comm.world.rank, step)
        off.append(float((found - mean * comm.world.size).norm() / found.norm()))
    return off


def narrowed(model):
    """Return the two large matrices of the model."""
    return [weight for weight in model.parameters() if weight.numel() > 300]


@pytest.mark.parametrize("low_rank", [1, 3])
def test_sums_are_those_of_torchs_hook(ranks, low_rank):
    for off in ranks.run(beside_torchs_hook, low_rank):
        assert max(off) < 1e-5


def spoilt_exchanges(comm):
    rank, replica = comm.world.rank, PowerSgd(1, 0, SMALL_BUCKETS).attach(new_model(), comm)
    exchange(replica, rank, 0, moved=False)
    exchange(replica, rank, 1)
    before, narrow = residual_of(replica), replica.memory.state().shared
    narrow = {name: value.clone() for name, value in narrow.items() if "/q/" in name}
    spoilt = exchange(replica, rank, 2, moved=False, spoil=math.nan if rank == 1 else None)
    same = all(torch.equal(replica.memory.state().shared[n], q) for n, q in narrow.items())
    well = exchange(replica, rank, 3)
    return (
        bool(spoilt.isfinite().all()),
        same and bool(narrow) and torch.equal(before, residual_of(replica)) is False,
        bool(well.isfinite().all()),
        well.tolist(),
    )


def test_a_number_that_is_not_finite_reaches_all_and_leaves_no_trace(ranks):
    found = ranks.run(spoilt_exchanges)
    for finite, untouched, well, gradient in found:
        assert not finite
        assert untouched
        assert well
        assert gradient == found[0][3]


def carry_over(comm):
    rank = comm.world.rank
    one, other = (PowerSgd(1, 1, SMALL_BUCKETS).attach(new_model(), comm) for _ in range(2))
    cut_otherwise = PowerSgd(1, 1, 25.0).attach(new_model(), comm)
    for replica in (one, other, cut_otherwise):
        exchange(replica, rank, 0, moved=False)
    for step in (1, 2, 3):
        exchange(one, rank, step)
    found = collect(comm, one.memory.state())
    for replica in (other, cut_otherwise):
        replica.memory.load(deal(comm, found))
        assert torch.equal(residual_of(replica), residual_of(one))
    assert torch.equal(exchange(one, rank, 4), exchange(other, rank, 4))
    return bool(exchange(cut_otherwise, rank, 4).isfinite().all())


def test_all_it_keeps_is_saved_and_other_buckets_begin_anew(ranks):
    assert all(ranks.run(carry_over))
