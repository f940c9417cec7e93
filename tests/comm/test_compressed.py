"""Gradients that travel in fewer bits."""

import math
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn

from support.exchanges import (
    SMALL_BUCKETS,
    batch_of,
    exact_gradients,
    exchange,
    loss_of,
    new_model,
    residual_of,
)
from unisono.comm.group import Solo
from unisono.comm.protocol import StrategyTensors
from unisono.comm.strategies.compressed import Compressed, QuantizedSum, trained_weights
from unisono.comm.strategies.ddp import DdpReplica, completed
from unisono.comm.strategies.packed_gather import Subgroups, sum_gathered
from unisono.comm.strategies.quantize import quantize
from unisono.comm.strategies.strategy_state import collect, deal
from unisono.comm.waiting import how_contact_was_lost
from unisono.cost_model.probe_results import Gradient
from unisono.cost_model.step import filled
from unisono.stopwatch import Stopwatch

pytestmark = pytest.mark.ranks

BITS = [16, 8, 4]


def sums_over_time(comm, bits, bucket_mb, phases=0):
    """Exchange five gradients of the same weights; return what came of them."""
    rank, size = comm.world.rank, comm.world.size
    replica = Compressed(bits, bucket_mb, phases=phases).attach(new_model(), comm)
    sent, wanted, first_off = 0, 0, 0
    for step in range(1, 6):
        found = exchange(replica, rank, step, scale=2.0**step) / 2.0**step
        exact = exact_gradients(replica.module, size, step)
        if step == 1:
            first_off = float((found - exact).norm() / exact.norm())
        sent, wanted = sent + found, wanted + exact
    everyones_left = comm.sum(residual_of(replica))
    lost = (sent + everyones_left - wanted).abs().max() / wanted.abs().max()
    return found.tolist(), first_off, float(lost), float(everyones_left.abs().max())


@pytest.mark.parametrize("bucket_mb", [SMALL_BUCKETS, 25.0])
@pytest.mark.parametrize(("ranks", "bits"), [(2, 16), (4, 8), (2, 4)], indirect=["ranks"])
def test_what_rounding_drops_is_sent_later_and_all_have_the_same_bits(ranks, bits, bucket_mb):
    first, *others = ranks.run(sums_over_time, bits, bucket_mb)
    gradient, first_off, lost, left = first
    assert all(other[0] == gradient for other in others)
    assert 0 < first_off < {16: 0.0003, 8: 0.02, 4: 0.3}[bits]
    assert left > 0
    assert lost < 2e-6  # over five updates whose loss was scaled by 2, 4, … 32


def spoilt_exchanges(comm, bits, phases=0):
    rank = comm.world.rank
    replica = Compressed(bits, SMALL_BUCKETS, phases=phases).attach(new_model(), comm)
    exchange(replica, rank, 1)
    before = residual_of(replica)
    odd = [math.nan, math.inf, 1e30][rank % 3] if rank == comm.world.size - 1 else None
    spoilt = exchange(replica, rank, 2, moved=False, spoil=odd)
    after = residual_of(replica)
    well = exchange(replica, rank, 3)
    left = residual_of(replica)
    return (
        bool(spoilt.isfinite().all()),
        torch.equal(before, after),
        bool(well.isfinite().all() and left.isfinite().all()),
        well.tolist(),
    )


@pytest.mark.parametrize("bits", BITS)
def test_a_number_that_is_not_finite_reaches_all_and_leaves_no_trace(ranks, bits):
    found = ranks.run(spoilt_exchanges, bits)
    for finite, untouched, well, gradient in found:
        assert not finite
        assert untouched
        assert well
        assert gradient == found[0][3]


def exchange_with_nobody(comm, phases):
    """Let the leading process exchange a gradient that no other sends; return what it says."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if comm.world.leads:
        model, size = new_model(), comm.world.size
        lines = Subgroups(size, size, 1, 0, leads=True, between=group)
        packed = QuantizedSum(trained_weights(model), lines, 8, "cpu", phases)
        replica = DdpReplica(model, comm, 25.0, packed.send, packed)
        with pytest.raises(RuntimeError) as caught:
            exchange(replica, 0, 1)
    comm.barrier()
    return how_contact_was_lost(caught.value) if comm.world.leads else ""


@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_what_does_not_arrive_is_an_error_of_the_backward_pass(ranks, phases):
    assert ranks.run(exchange_with_nobody, phases) == ["Timed out waiting", ""]


def buckets_made(comm, bucket_mb):
    """Return the bytes of DDP's buckets once they are filled as gradients come, and these."""
    seen = {}

    def note(bucket):
        seen[bucket.index()] = [weight.nbytes for weight in bucket.parameters()]
        return completed(bucket.buffer())

    layers = [nn.Linear(300, 300) for _ in range(9)]
    replica = DdpReplica(nn.Sequential(*layers), comm, bucket_mb, note)
    for _ in range(2):  # all are in one bucket at first
        seen.clear()
        replica.gradients([torch.ones(1, 300)], loss_of, Stopwatch())
    return [seen[number] for number in sorted(seen)]


@pytest.mark.parametrize("ranks", [2], indirect=True)
@pytest.mark.parametrize("bucket_mb", [0.5, 1.5, 25.0])
def test_buckets_are_filled_as_physics_has_it(ranks, bucket_mb):
    made = ranks.run(buckets_made, bucket_mb)[0]
    gradients = [Gradient(size, 1.0) for bucket in made for size in bucket]
    sizes, _ = filled(gradients, bucket_mb, 1.0)
    assert sizes == [sum(bucket) for bucket in made]
    assert sum(sizes) == 4 * 9 * 300 * 301


def carry_over(comm, bits):
    """Save after two exchanges, load elsewhere with other buckets, and go on in both."""
    rank = comm.world.rank
    one = Compressed(bits, SMALL_BUCKETS).attach(new_model(), comm)
    for step in (1, 2):
        exchange(one, rank, step)
    found = collect(comm, one.memory.state())
    here, left = residual_of(one), Compressed(bits, SMALL_BUCKETS).attach(new_model(), comm)
    other = Compressed(bits, 25.0).attach(new_model(), comm)
    for replica in (left, other):
        replica.memory.load(deal(comm, found))
        exchange(replica, rank, 0, moved=False)  # DDP makes its buckets anew after the first
        assert torch.equal(residual_of(replica), here)
    expected, same = exchange(one, rank, 3), exchange(left, rank, 3)
    assert torch.equal(expected, same)
    assert torch.equal(residual_of(one), residual_of(left))
    one.memory.load(StrategyTensors())
    assert not residual_of(one).any()
    return sorted(found)


@pytest.mark.parametrize("bits", [8, 4])
def test_residuals_are_saved_by_weight_and_loaded_into_any_buckets(ranks, bits):
    leader, *others = ranks.run(carry_over, bits)
    names = [name for name, _ in new_model().named_parameters()]
    wanted = [
        f"{rank}/{name}/gradient_left_over" for rank in range(ranks.size) for name in names
    ]
    assert leader == sorted(wanted)
    assert others == [[]] * (ranks.size - 1)


def deal_out(comm, owners):
    found = {f"{rank}/a": torch.full((2, 3), 10.0**rank) for rank in range(owners)}
    found["shared/m"] = torch.arange(3.0)
    kept = deal(comm, found if comm.world.leads else {})
    return float(kept.own["a"][1, 2]), kept.shared["m"].tolist()


@pytest.mark.parametrize("owners", [1, 2, 3, 5])
def test_nothing_is_lost_on_more_or_fewer_processes(ranks, owners):
    found = ranks.run(deal_out, owners)
    assert sum(own for own, _ in found) == sum(10.0**rank for rank in range(owners))
    if owners == ranks.size:
        assert [own for own, _ in found] == [10.0**rank for rank in range(owners)]
    assert all(shared == [0.0, 1.0, 2.0] for _, shared in found)


def test_one_process_gets_all():
    found = {"0/a": torch.ones(2), "1/a": torch.ones(2)}
    assert deal(Solo(), found).own["a"].tolist() == [2.0, 2.0]


def test_rows_are_added_in_their_order():
    rows = [quantize(torch.full((256,), value), 32) for value in (1e8, -1e8, 1.0)]
    assert float(sum_gathered(rows, 32)[0]) == 1.0
    assert float(sum_gathered([rows[0], rows[2], rows[1]], 32)[0]) == 0.0


def attach_use_and_drop(comm):
    replica, stopwatch = Compressed(8).attach(new_model(), comm), Stopwatch()
    replica.gradients([batch_of(0, 1)] * 2, loss_of, stopwatch)
    _, parts = stopwatch.lap()
    gone = weakref.ref(replica._wrapped)
    del replica
    return sorted(parts), min(parts.values()) >= 0, gone() is None


def test_times_are_told_and_nothing_is_kept(ranks):
    for parts, sane, freed in ranks.run(attach_use_and_drop):
        assert parts == ["backward", "exchange", "forward", "hidden"]
        assert sane
        assert freed
