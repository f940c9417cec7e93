"""Two processes on each of two machines: exact within, packed or rare between."""

from dataclasses import replace

import pytest
import torch
from test_compressed import spoilt_exchanges, sums_over_time
from test_diloco import (
    RATE,
    agreeing_at_once,
    attach,
    exact_run,
    nothing_is_lost,
    row_of,
    update,
)

from support.exchanges import SMALL_BUCKETS, batch_of, exchange, loss_of, new_model, residual_of
from unisono.comm.group import Group
from unisono.comm.strategies.compressed import Compressed
from unisono.comm.strategies.packed_gather import make_subgroups
from unisono.comm.strategies.quantize import dequantize, padded, quantize
from unisono.comm.strategies.strategy_state import collect, deal
from unisono.errors import RunError

pytestmark = pytest.mark.ranks


def places(comm):
    lines = make_subgroups(comm, 60.0)
    total = lines.sum(torch.tensor([10.0**comm.world.rank]))
    return lines.senders, lines.members, lines.first, lines.leads, float(total)


def test_one_process_speaks_for_its_machine(two_by_two):
    found = two_by_two.run(places)
    assert [row[:4] for row in found] == [
        (2, 2, 0, True),
        (2, 2, 0, False),
        (2, 2, 2, True),
        (2, 2, 2, False),
    ]
    assert [row[4] for row in found] == [1111.0] * 4


@pytest.mark.parametrize("bucket_mb", [SMALL_BUCKETS, 25.0])
@pytest.mark.parametrize("bits", [8, 4])
def test_what_rounding_drops_is_sent_later_and_all_have_the_same_bits(
    two_by_two, bits, bucket_mb
):
    first, *others = two_by_two.run(sums_over_time, bits, bucket_mb)
    gradient, first_off, lost, left = first
    assert all(other[0] == gradient for other in others)
    assert 0 < first_off < {8: 0.02, 4: 0.3}[bits]
    assert left > 0
    assert lost < 2e-6


def first_exchange(comm):
    replica = Compressed(4, 25.0).attach(new_model(), comm)
    found = exchange(replica, comm.world.rank, 1)
    return found.tolist(), bool(residual_of(replica).any())


def row_of_gradients(ranks):
    """Return the exact sum over `ranks`, as one bucket holds it."""
    model = new_model()
    for rank in ranks:
        loss_of(model, batch_of(rank, 1)).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def test_each_machine_packs_its_sum_once(two_by_two):
    total = 0
    for machine in ((0, 1), (2, 3)):
        row = row_of_gradients(machine)
        filled = torch.nn.functional.pad(row, (0, padded(row.numel()) - row.numel()))
        total = total + dequantize(quantize(filled, 4), 4)[: row.numel()]
    found = two_by_two.run(first_exchange)
    for gradient, _ in found:
        torch.testing.assert_close(torch.tensor(gradient), total, rtol=1e-5, atol=1e-5)
    assert [keeps for _, keeps in found] == [True, False, True, False]


@pytest.mark.parametrize("bits", [8, 4])
def test_a_number_that_is_not_finite_reaches_all_and_leaves_no_trace(two_by_two, bits):
    found = two_by_two.run(spoilt_exchanges, bits)
    for finite, untouched, well, gradient in found:
        assert not finite
        assert untouched
        assert well
        assert gradient == found[0][3]


def from_another_layout(comm):
    """Go on with what four processes left over that were a machine each."""
    left = {
        name + "/gradient_left_over": torch.randn_like(weight.detach()) / 100
        for name, weight in new_model().named_parameters()
    }
    found = {f"{r}/{name}": (r + 1) * tensor for r in range(4) for name, tensor in left.items()}
    one = Compressed(4, SMALL_BUCKETS).attach(new_model(), comm)
    one.memory.load(deal(comm, found if comm.world.leads else {}))
    before = comm.sum(residual_of(one))
    exchange(one, comm.world.rank, 1, moved=False)
    skipped = comm.sum(residual_of(one))
    sent = exchange(one, comm.world.rank, 2)
    exact = torch.zeros(())
    twin = new_model()
    for rank in range(4):
        loss_of(twin, batch_of(rank, 2)).backward()
    exact = torch.cat([weight.grad.flatten() for weight in twin.parameters()])
    lost = sent + comm.sum(residual_of(one)) - exact - before
    owners = {name.split("/")[0] for name in collect(comm, one.memory.state())}
    return torch.equal(before, skipped), float(lost.abs().max() / exact.abs().max()), owners


def test_residuals_of_another_layout_are_sent_too(two_by_two):
    found = two_by_two.run(from_another_layout)
    assert all(untouched and lost < 2e-6 for untouched, lost, _ in found)
    assert found[0][2] == {"0", "2"}  # nothing is saved of those who keep nothing


def on_machines(comm, local_ranks):
    """Return the communicator of a process that is on another machine than it seems."""
    local, size = local_ranks[comm.world.rank], 0
    for rank, other in enumerate(local_ranks):  # machines side by side
        if other == 0 and rank > comm.world.rank:
            break
        size = 1 if other == 0 else size + 1
    return Group(replace(comm.world, local_rank=local, local_size=size))


def uneven(comm, function, *args):
    return function(on_machines(comm, (0, 1, 0)), *args)


@pytest.mark.parametrize("ranks", [3], indirect=True)
def test_a_full_machine_and_one_with_a_single_process(ranks):
    first, *others = ranks.run(uneven, sums_over_time, 4, SMALL_BUCKETS)
    assert all(other[0] == first[0] for other in others)
    assert first[2] < 2e-6
    # Each process counts as much as any other: in full, after every update, it is plain SGD.
    first, *others = ranks.run(uneven, agreeing_at_once)
    assert all(other[0] == first[0] for other in others)
    torch.testing.assert_close(torch.tensor(first[0]), exact_run(3, 5), rtol=2e-5, atol=2e-6)


def test_agreeing_after_every_update_in_full_is_plain_sgd(two_by_two):
    first, *others = two_by_two.run(agreeing_at_once)
    assert all(other[0] == first[0] for other in others)
    torch.testing.assert_close(torch.tensor(first[0]), exact_run(4, 5), rtol=2e-5, atol=2e-6)
    whole = sum(loss_of(new_model(), batch_of(r, 1)).item() for r in range(4))
    assert sum(losses[0] for _, losses in (first, *others)) == pytest.approx(whole, rel=1e-5)


def rows_by_step(comm, bits):
    replica = attach(comm, bits=bits, local_steps=4, warmup_steps=2, last_local_step=13)
    rows = []
    for step in range(1, 16):
        update(replica, comm.world.rank, step)
        rows.append(row_of(replica.module).numpy())
    return rows


@pytest.mark.parametrize("bits", [32, 4])
def test_machines_go_apart_and_their_processes_do_not(two_by_two, bits):
    found = two_by_two.run(rows_by_step, bits)
    for step in range(1, 16):
        a, b, c, d = (rows[step - 1] for rows in found)
        assert (a == b).all(), step
        assert (c == d).all(), step
        assert (a == c).all() == (step <= 2 or step >= 13), step
    exact, start = exact_run(4, 15).numpy(), row_of(new_model()).numpy()
    assert abs(found[0][-1] - exact).max() < 0.05 * abs(exact - start).max()


def test_what_rounding_dropped_is_in_the_weights_all_agree_on(two_by_two):
    exact = torch.tensor(two_by_two.run(nothing_is_lost, 32)[0][0])
    coarse = two_by_two.run(nothing_is_lost, 4)
    for row, _, other in coarse:
        assert row == coarse[0][0]
        assert other == [1.5] * 3
    assert [left > 0 for _, left, _ in coarse] == [True, False, True, False]
    off = (torch.tensor(coarse[0][0]) - exact).norm() / (exact - row_of(new_model())).norm()
    assert off < 0.02


def spoilt_weights(comm, where):
    """Let a number of one process's weights go bad between two rounds."""
    replica = attach(comm, bits=4, local_steps=2)
    try:
        for step in range(1, 7):
            if step == 3 and comm.world.rank in where:
                next(replica.module.parameters()).data[0, 0] = float("nan")
            update(replica, comm.world.rank, step, rate=RATE)
    except RunError as error:
        replica.memory._outer.abandon()
        return step, str(error)
    return 0, ""


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_weights_that_are_not_finite_end_the_run_on_all(ranks):
    first, *others = ranks.run(spoilt_weights, [1])
    assert first[0] in (4, 5)
    assert "not finite" in first[1]
    assert all(other == first for other in others)


def test_weights_that_are_not_finite_on_one_machine_end_the_run_on_all(two_by_two):
    first, *others = two_by_two.run(spoilt_weights, [2, 3])
    assert first[0] in (4, 5)
    assert all(other == first for other in others)
