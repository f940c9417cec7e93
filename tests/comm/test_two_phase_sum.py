"""Sums in two phases: each machine adds up a share, and hands it out."""

import threading
from hashlib import sha256

import pytest
import torch
import torch.distributed as dist
from test_compressed import spoilt_exchanges, sums_over_time
from test_diloco import attach, exact_run, row_of, update

from support.exchanges import (
    SMALL_BUCKETS,
    batch_of,
    exact_gradients,
    exchange,
    loss_of,
    new_model,
    residual_of,
)
from unisono.comm.strategies.compressed import Compressed
from unisono.comm.strategies.quantize import (
    BLOCK,
    dequantize,
    join_messages,
    message_bytes,
    padded,
    quantize,
    split_message,
)
from unisono.comm.strategies.strategy_state import collect, deal
from unisono.comm.strategies.two_phase_sum import TwoPhaseSum
from unisono.cost_model.exchange import gathered, in_two_phases
from unisono.stopwatch import Stopwatch


@pytest.mark.parametrize("bits", [32, 16, 8, 4])
@pytest.mark.parametrize("shares", [1, 2, 5])
def test_the_message_of_a_share_is_that_of_its_numbers(bits, shares):
    values = torch.randn(padded(1000, shares))
    message = quantize(values, bits)
    rows = split_message(message, shares, bits)
    for row, part in zip(rows, values.view(shares, -1), strict=True):
        assert torch.equal(row, quantize(part.contiguous(), bits))
    assert torch.equal(join_messages(rows, bits), message)
    assert torch.equal(dequantize(join_messages(rows, bits), bits), dequantize(message, bits))


def test_every_share_has_as_many_whole_blocks():
    assert padded(1, 3) == 3 * BLOCK
    assert padded(3 * BLOCK, 3) == 3 * BLOCK
    assert padded(3 * BLOCK + 1, 3) == 6 * BLOCK


@pytest.mark.ranks
@pytest.mark.parametrize("bucket_mb", [SMALL_BUCKETS, 25.0])
@pytest.mark.parametrize(("ranks", "bits"), [(2, 8), (3, 4), (4, 4)], indirect=["ranks"])
def test_what_both_phases_drop_is_sent_later_and_all_have_the_same_bits(ranks, bits, bucket_mb):
    first, *others = ranks.run(sums_over_time, bits, bucket_mb, 2)
    gradient, first_off, lost, left = first
    assert all(other[0] == gradient for other in others)
    assert 0 < first_off < {16: 0.0004, 8: 0.02, 4: 0.3}[bits]
    assert left > 0
    assert lost < 2e-6


@pytest.mark.ranks
def test_two_machines_of_two_processes_lose_nothing_either(two_by_two):
    first, *others = two_by_two.run(sums_over_time, 4, SMALL_BUCKETS, 2)
    assert all(other[0] == first[0] for other in others)
    assert first[2] < 2e-6


@pytest.mark.ranks
def test_three_machines_of_two_processes_lose_nothing_either(three_by_two):
    first, *others = three_by_two.run(sums_over_time, 4, SMALL_BUCKETS)
    assert all(other[0] == first[0] for other in others)
    assert first[3] > 0
    assert first[2] < 2e-6


def by_nccls_calls(comm, bits):
    """Sum with the collectives that NCCL gets; gloo knows them, too."""
    by_gloo = TwoPhaseSum._send_by_gloo
    TwoPhaseSum._send_by_gloo = TwoPhaseSum._send_by_nccl
    try:
        return sums_over_time(comm, bits, SMALL_BUCKETS, 2)
    finally:
        TwoPhaseSum._send_by_gloo = by_gloo


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_the_collectives_of_nccl_come_to_the_same_sum(ranks):
    found, wanted = ranks.run(by_nccls_calls, 4), ranks.run(sums_over_time, 4, SMALL_BUCKETS, 2)
    assert all(one[0] == found[0][0] for one in found)
    assert found[0][2] < 2e-6
    assert found[0][0] == wanted[0][0]  # an owner's own message says zeros, in its place


def local_updates(comm, bits):
    """Make local updates that are summed in two phases; return the weights after each."""
    replica = attach(comm, bits=bits, local_steps=4, last_local_step=13, phases=2)
    rows = []
    for step in range(1, 16):
        update(replica, comm.world.rank, step)
        rows.append(row_of(replica.module).numpy())
    return rows


def check_local_updates(found, members):
    size = len(found)
    for step in range(1, 16):
        row, *others = (rows[step - 1] for rows in found)
        assert all((row == other).all() for other in others) == (step >= 13), step
        for first in range(0, size, members):
            mates = [rows[step - 1] for rows in found[first : first + members]]
            assert all((mate == mates[0]).all() for mate in mates), step
    exact, start = exact_run(size, 15).numpy(), row_of(new_model()).numpy()
    assert abs(found[0][-1] - exact).max() < 0.05 * abs(exact - start).max()


@pytest.mark.ranks
@pytest.mark.parametrize("bits", [32, 4])
@pytest.mark.parametrize("ranks", [2, 4], indirect=True)
def test_machines_that_agree_in_two_phases_have_the_same_bits(ranks, bits):
    check_local_updates(ranks.run(local_updates, bits), members=1)


@pytest.mark.ranks
def test_machines_of_several_processes_agree_in_two_phases(three_by_two):
    check_local_updates(three_by_two.run(local_updates, 4), members=2)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3, 4], indirect=True)
def test_a_number_that_is_not_finite_reaches_all_and_leaves_no_trace(ranks):
    found = ranks.run(spoilt_exchanges, 4, 2)
    for finite, untouched, well, gradient in found:
        assert not finite
        assert untouched
        assert well
        assert gradient == found[0][3]


def bytes_sent(comm, bits, phases):
    """Return the bytes that this process hands to gloo in one exchange, and its numbers."""
    replica, sent, real = (
        Compressed(bits, 25.0, phases=phases).attach(wide(), comm),
        [],
        dist.isend,
    )

    def counting(tensor, *args, **kwargs):
        sent.append(tensor.nbytes)
        return real(tensor, *args, **kwargs)

    dist.isend = counting
    try:
        replica.gradients([torch.ones(1, 300)], loss_of, Stopwatch())
    finally:
        dist.isend = real
    return sum(sent), sum(weight.numel() for weight in replica.module.parameters())


def wide():
    return torch.nn.Linear(300, 301)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3, 4], indirect=True)
@pytest.mark.parametrize(("phases", "formula"), [(1, gathered), (2, in_two_phases)])
def test_a_card_sends_what_the_cost_model_says(ranks, phases, formula):
    for sent, numbers in ranks.run(bytes_sent, 4, phases):
        assert sent == pytest.approx(formula(message_bytes(numbers, 4), ranks.size), rel=0.01)


@pytest.mark.ranks
@pytest.mark.parametrize(("ranks", "phases"), [(2, 1), (3, 2), (4, 2)], indirect=["ranks"])
def test_two_machines_sum_in_one_phase_and_more_in_two(ranks, phases):
    assert ranks.run(bytes_sent, 8, 0) == ranks.run(bytes_sent, 8, phases)


def before_some_leave(comm):
    """Return what two updates sent, what all wanted to send, and what a checkpoint holds."""
    replica = Compressed(4, SMALL_BUCKETS, phases=2).attach(new_model(), comm)
    rank, size = comm.world.rank, comm.world.size
    sent = sum(exchange(replica, rank, step) for step in (1, 2))
    wanted = sum(exact_gradients(replica.module, size, step) for step in (1, 2))
    return sent, wanted, collect(comm, replica.memory.state())


def after_some_left(comm, found):
    """Go on with what the checkpoint holds; return what was sent, wanted, and left over."""
    replica = Compressed(4, SMALL_BUCKETS, phases=2).attach(new_model(), comm)
    replica.memory.load(deal(comm, found if comm.world.leads else {}))
    rank, size = comm.world.rank, comm.world.size
    sent = sum(exchange(replica, rank, step) for step in (3, 4))
    wanted = sum(exact_gradients(replica.module, size, step) for step in (3, 4))
    return sent, wanted, comm.sum(residual_of(replica))


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
@pytest.mark.parametrize("before", ["four machines", "three machines of two processes"])
def test_nothing_is_lost_after_machines_left(before, ranks, three_by_two, two_by_two):
    sent, wanted, found = (ranks if before == "four machines" else three_by_two).run(
        before_some_leave
    )[0]
    rest = two_by_two.run(after_some_left, found)
    assert all(torch.equal(row[0], rest[0][0]) for row in rest)
    lost = sent + rest[0][0] + rest[0][2] - wanted - rest[0][1]
    assert float(lost.abs().max() / wanted.abs().max()) < 2e-6


def continued(comm, before, after):
    """Go on from a checkpoint, summing in other phases; return whether anything changed."""
    rank, size = comm.world.rank, comm.world.size
    one = Compressed(4, SMALL_BUCKETS, phases=before).attach(new_model(), comm)
    other = Compressed(4, SMALL_BUCKETS, phases=after).attach(new_model(), comm)
    sent = sum(exchange(one, rank, step) for step in (1, 2))
    other.memory.load(deal(comm, collect(comm, one.memory.state())))
    exchange(other, rank, 0, moved=False)  # DDP makes its buckets anew after the first
    rest = exchange(other, rank, 3)
    wanted = sum(exact_gradients(one.module, size, step) for step in (1, 2, 3))
    left = comm.sum(residual_of(other))
    lost = float((sent + rest + left - wanted).abs().max() / wanted.abs().max())
    return rest.tolist(), torch.equal(exchange(one, rank, 3), rest), lost


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 2), (2, 1)])
def test_a_checkpoint_continues_to_the_bit_and_in_other_phases_loses_nothing(
    ranks, before, after
):
    found = ranks.run(continued, before, after)
    for row, same, lost in found:
        assert row == found[0][0]
        assert same == (before == after)
        assert lost < 2e-6


def deep():
    torch.manual_seed(1)
    return torch.nn.Sequential(*(torch.nn.Linear(300, 300) for _ in range(9)))


def sum_of_several_buckets(replica, batch):
    replica.module.zero_grad()
    replica.memory.begin(1, 1.0)
    replica.gradients([batch], loss_of, Stopwatch())
    replica.memory.settle(1, Stopwatch(), moved=True)
    return torch.cat([weight.grad.flatten() for weight in replica.module.parameters()])


def sums_that_are_late(comm):
    """Sum twice the same; the second time all first phases come before any second one."""
    replicas = [Compressed(4, 0.5, phases=2).attach(deep(), comm) for _ in range(2)]
    batch = torch.randn(4, 300, generator=torch.Generator().manual_seed(comm.world.rank))
    for replica in replicas:  # DDP makes its buckets anew after the first exchange
        sum_of_several_buckets(replica, batch)
    sends, first_phases, real = [], threading.Event(), dist.isend

    def counted(*args, **kwargs):
        sends.append(1)
        if len(sends) == usual + usual // 2:
            first_phases.set()
        return real(*args, **kwargs)

    def wait():
        first_phases.wait()
        return torch.zeros(0)

    usual, dist.isend = 0, counted
    try:
        wanted = sum_of_several_buckets(replicas[0], batch)
        usual = len(sends)
        replicas[1].memory._thread.do(wait)
        found = sum_of_several_buckets(replicas[1], batch)
    finally:
        dist.isend = real
    buckets = usual // (2 * (comm.world.size - 1))
    return buckets, torch.equal(found, wanted), sha256(found.numpy()).hexdigest()


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_the_phases_of_several_buckets_do_not_mix(ranks):
    found = ranks.run(sums_that_are_late)
    buckets, same, _ = found[0]
    assert buckets > 2
    assert same
    assert found == [found[0]] * 4


def brute_force(ranks, bits):
    """Return the first sum of all processes' gradients, made by one process."""
    rows = []
    for rank in range(ranks):
        model = new_model()
        loss_of(model, batch_of(rank, 1)).backward()
        row = torch.cat([weight.grad.flatten() for weight in model.parameters()])
        rows.append(torch.nn.functional.pad(row, (0, padded(len(row), ranks) - len(row))))
    shares = []
    for owner in range(ranks):
        parts = [row.view(ranks, -1)[owner].contiguous() for row in rows]
        rounded = [dequantize(quantize(part, bits), bits) for part in parts]
        rounded[owner] = parts[owner]
        shares.append(dequantize(quantize(sum(rounded), bits), bits))
    return torch.cat(shares)


def first_sum(comm, bits):
    replica = Compressed(bits, 25.0, phases=2).attach(new_model(), comm)
    return exchange(replica, comm.world.rank, 1)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_an_owner_adds_its_own_numbers_unrounded_and_rounds_the_sum(ranks):
    found = ranks.run(first_sum, 8)[0]
    wanted = brute_force(4, 8)[: len(found)]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
