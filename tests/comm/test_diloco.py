"""Updates that processes make by themselves, and weights they agree on."""

import pytest
import torch

from support.exchanges import SMALL_BUCKETS, batch_of, exact_gradients, loss_of, new_model
from unisono.comm.group import Solo
from unisono.comm.strategies.diloco import Diloco, usual_rate
from unisono.comm.strategies.strategy_state import collect, deal
from unisono.errors import ConfigError
from unisono.stopwatch import Stopwatch

RATE = 1e-4


def row_of(model):
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def update(replica, rank, step, rate=RATE):
    """Make one update of plain SGD."""
    model, stopwatch = replica.module, Stopwatch()
    model.zero_grad()
    replica.memory.begin(step, 1.0)
    loss = replica.gradients([batch_of(rank, step)], loss_of, stopwatch)
    with torch.no_grad():
        for weight in model.parameters():
            weight -= rate * weight.grad
    replica.memory.settle(step, stopwatch, moved=True)
    if replica.memory.is_last_apart(step):
        replica.memory.agree([])
    return float(loss.detach())


def attach(comm, **settings):
    chosen = {"warmup_steps": 0, "bucket_mb": SMALL_BUCKETS, "bits": 32, **settings}
    return Diloco(**chosen).attach(new_model(), comm)


def exact_run(size, steps):
    """Return the weights one process comes to with the batches of all."""
    model = new_model()
    for step in range(1, steps + 1):
        moves = exact_gradients(model, size, step) * RATE
        with torch.no_grad():
            parts = moves.split([weight.numel() for weight in model.parameters()])
            for weight, part in zip(model.parameters(), parts, strict=True):
                weight -= part.view_as(weight)
    return row_of(model)


def agreeing_at_once(comm):
    replica = attach(comm, local_steps=1, waits=True)
    losses = [update(replica, comm.world.rank, step) for step in range(1, 6)]
    return row_of(replica.module).tolist(), losses


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3], indirect=True)
def test_agreeing_after_every_update_in_full_is_plain_sgd(ranks):
    first, *others = ranks.run(agreeing_at_once)
    assert all(other[0] == first[0] for other in others)
    torch.testing.assert_close(
        torch.tensor(first[0]), exact_run(ranks.size, 5), rtol=2e-5, atol=2e-6
    )
    whole = sum(loss_of(new_model(), batch_of(r, 1)).item() for r in range(ranks.size))
    assert sum(losses[0] for _, losses in (first, *others)) == pytest.approx(whole, rel=1e-5)


def rates(comm):
    replica = attach(comm, warmup_steps=1, last_local_step=2, local_rate=0.0)
    factors = []
    for step in (1, 2, 3):
        update(replica, comm.world.rank, step)
        factors.append([replica.memory.rate_factor(words=words) for words in (True, False)])
    return factors


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3], indirect=True)
def test_only_words_in_updates_of_ones_own_take_another_rate(ranks):
    wanted = [[1.0, 1.0], [float(ranks.size), 1.0], [1.0, 1.0]]
    assert ranks.run(rates) == [wanted] * ranks.size


@pytest.mark.parametrize(("machines", "rate"), [(2, 2.0), (4, 4.0), (9, 6.0)])
def test_the_usual_rate_of_words_grows_more_slowly_where_it_was_not_tried(machines, rate):
    assert usual_rate(machines, words=True) == pytest.approx(rate)
    assert usual_rate(machines, words=False) == 1.0


def by_brute_force(comm, momentum, rate, local_steps=3):
    """Return how far three rounds end from what one process makes of all batches."""
    rank, size = comm.world.rank, comm.world.size
    settings = {"outer_momentum": momentum, "outer_rate": rate, "local_steps": local_steps}
    replica = attach(comm, waits=True, fragments=1, **settings)
    twins = [new_model() for _ in range(size)]
    anchor, past = row_of(new_model()), 0
    for step in range(1, 3 * local_steps + 1):
        update(replica, rank, step)
        for r, twin in enumerate(twins):
            twin.zero_grad()
            (loss_of(twin, batch_of(r, step)) * size).backward()
            with torch.no_grad():
                for weight in twin.parameters():
                    weight -= RATE * weight.grad
        if step % local_steps == 0:
            moved = sum(anchor - row_of(twin) for twin in twins) / size
            past = momentum * past + moved
            anchor = anchor - rate * (moved + momentum * past)
            for twin in twins:
                torch.nn.utils.vector_to_parameters(anchor.clone(), twin.parameters())
    return float((row_of(replica.module) - anchor).abs().max()), float(anchor.abs().max())


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3], indirect=True)
@pytest.mark.parametrize(("momentum", "rate"), [(0.0, 1.0), (0.5, 0.7)])
def test_rounds_of_one_fragment_are_nesterovs_steps_on_the_mean_difference(
    ranks, momentum, rate
):
    for off, size in ranks.run(by_brute_force, momentum, rate):
        assert off < 1e-5 * size


def apart_and_together(comm, bits):
    """Make local updates behind which fragments travel; return what is known at each step."""
    rank = comm.world.rank
    replica = attach(comm, bits=bits, local_steps=4, warmup_steps=2, last_local_step=13)
    rows, agreed = [], []
    for step in range(1, 16):
        update(replica, rank, step)
        rows.append(row_of(replica.module))
        agreed.append(replica.memory.agreed)
    return [row.numpy() for row in rows], agreed


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3], indirect=True)
@pytest.mark.parametrize("bits", [32, 8, 4])
def test_exact_then_apart_but_near_then_exact_again(ranks, bits):
    found = ranks.run(apart_and_together, bits)
    together = [True] * 2 + [False] * 10 + [True] * 3
    assert all(agreed == together for _, agreed in found)
    for step, same in enumerate(together):
        first, *others = (rows[step] for rows, _ in found)
        assert all((first == other).all() for other in others) == same, step + 1
    exact = exact_run(ranks.size, 15).numpy()
    start = row_of(new_model()).numpy()
    assert abs(found[0][0][-1] - exact).max() < 0.05 * abs(exact - start).max()


def nothing_is_lost(comm, bits):
    """Agree on weights after some updates; return the mean before, and what is left after."""
    replica = attach(comm, bits=bits, local_steps=2, waits=True, last_local_step=100)
    for step in range(1, 6):
        update(replica, comm.world.rank, step)
    outer = replica.memory._outer
    left = sum(float(f.residual.abs().sum()) for f in outer._fragments)
    other = torch.full((3,), float(comm.world.rank))
    replica.memory.agree([other])
    return row_of(replica.module).tolist(), left, other.tolist()


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3], indirect=True)
def test_what_rounding_dropped_is_in_the_weights_all_agree_on(ranks):
    exact = torch.tensor(ranks.run(nothing_is_lost, 32)[0][0])
    coarse = ranks.run(nothing_is_lost, 4)
    mean = sum(range(ranks.size)) / ranks.size
    for row, left, other in coarse:
        assert row == coarse[0][0]
        assert left > 0
        assert other == [mean] * 3
    start = row_of(new_model())
    off = (torch.tensor(coarse[0][0]) - exact).norm() / (exact - start).norm()
    assert off < 0.02


def test_one_process_has_nobody_to_agree_with():
    with pytest.raises(ConfigError, match="diloco with one process is a no-op"):
        Diloco().attach(new_model(), Solo())


def go_on(comm, momentum):
    """Save what is kept after agreeing, load it elsewhere, and go on in both."""
    rank = comm.world.rank
    one, other = (
        attach(comm, bits=8, local_steps=2, outer_momentum=momentum) for _ in range(2)
    )
    for step in range(1, 6):
        update(one, rank, step)
    one.memory.agree([])
    kept = deal(comm, collect(comm, one.memory.state()))
    update(other, rank, 1)  # a fragment is on its way when it goes back
    update(other, rank, 2)
    other.module.load_state_dict(one.module.state_dict())
    other.memory.load(kept)
    for step in range(6, 10):
        update(one, rank, step)
        update(other, rank, step)
    return torch.equal(row_of(one.module), row_of(other.module)), len(kept.shared)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3], indirect=True)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_all_it_keeps_is_saved(ranks, momentum):
    weights = len(list(new_model().parameters()))
    assert ranks.run(go_on, momentum) == [(True, weights if momentum else 0)] * ranks.size
