"""The gradient of words that are read and scored with one matrix: what is late is not lost."""

import math

import msgspec
import pytest
import torch

from unisono.comm.strategies.compressed import Compressed, delayed_embedding_grad_of
from unisono.comm.strategies.strategy_state import collect, deal
from unisono.models.output import loss_sums
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.stopwatch import Stopwatch

pytestmark = pytest.mark.ranks

WORDS, SOME_BUCKETS = 50, 0.01
SETTINGS = TransformerSettings(
    width=32, inner=64, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0
)


def new_model(settings=SETTINGS):
    torch.manual_seed(1)
    return build_model(settings, WORDS).eval()  # nothing is dropped


def loss_of(model, batch):
    return loss_sums(model, *batch, 0.1)


def batches_of(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return list(torch.randint(4, WORDS, (2, 3, 4, 7), generator=generator))


def exact(size, step):
    """Return the gradient of all words over all ranks, made by one process."""
    model = new_model()
    for batch in [b for rank in range(size) for b in batches_of(rank, step)]:
        loss_of(model, batch).backward()
    return model.tied_matrix.grad


def exchange(replica, rank, step, *, moved=True, scale=1.0, factor=1.0):
    """Return the gradient of all words after an exchange, which is then settled."""
    replica.module.zero_grad()
    replica.memory.begin(step, scale)

    def scaled(model, batch):
        return loss_of(model, batch) * scale * factor

    replica.gradients(batches_of(rank, step), scaled, Stopwatch())
    replica.memory.settle(step, Stopwatch(), moved=moved)
    return replica.module.tied_matrix.grad / scale


def left(replica):
    return replica.memory.state().own["embeddings.shared/gradient_left_over"]


def sums_over_time(comm, bits, bucket_mb):
    rank, size = comm.world.rank, comm.world.size
    replica = Compressed(bits, bucket_mb).attach(new_model(), comm)
    assert replica.module.tied_matrix.requires_grad
    sent, wanted = torch.zeros(()), torch.zeros(())
    for step in range(1, 5):
        sent = sent + exchange(replica, rank, step, scale=2.0**step)
        wanted = wanted + exact(size, step)
    late = comm.sum(left(replica))
    assert list(replica.module.embeddings) == ["shared"]
    lost = (sent + late - wanted).abs().max() / wanted.abs().max()
    return sent.tolist(), float(lost), float(late.abs().max())


@pytest.mark.parametrize("bucket_mb", [SOME_BUCKETS, 25.0])
@pytest.mark.parametrize(("ranks", "bits"), [(2, 16), (4, 8), (2, 4)], indirect=["ranks"])
def test_what_reading_words_adds_is_sent_later(ranks, bits, bucket_mb):
    first, *others = ranks.run(sums_over_time, bits, bucket_mb)
    sent, lost, late = first
    assert all(other[0] == sent for other in others)
    assert lost < 2e-6
    assert late > 0.01


def test_every_process_of_a_machine_has_words_that_are_late(two_by_two):
    first, *others = two_by_two.run(sums_over_time, 8, SOME_BUCKETS)
    assert all(other[0] == first[0] for other in others)
    assert first[1] < 2e-6


def first_sent(comm):
    """Return what of the first gradient is missing when it is sent in nearly all its bits."""
    rank, size = comm.world.rank, comm.world.size
    replica = Compressed(16, 25.0).attach(new_model(), comm)
    found, model = exchange(replica, rank, 1), new_model()
    words = delayed_embedding_grad_of(model)
    for batch in [b for rank in range(size) for b in batches_of(rank, 1)]:
        with words.apart():
            loss_of(model, batch).backward()
        found = found - words.scores.grad
    return float(found.abs().max())


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_what_scoring_words_says_is_sent_at_once(ranks):
    assert max(ranks.run(first_sent)) < 0.01


def spoilt(comm):
    rank, replica = comm.world.rank, Compressed(8, 25.0).attach(new_model(), comm)
    exchange(replica, rank, 1)
    before = left(replica)
    odd = exchange(replica, rank, 2, moved=False, factor=math.nan if rank else 1.0)
    untouched = torch.equal(before, left(replica))
    well = exchange(replica, rank, 3)
    return bool(odd.isfinite().all()), untouched, bool(well.isfinite().all())


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_of_an_update_that_is_skipped_nothing_is_late(ranks):
    assert ranks.run(spoilt) == [(False, True, True)] * 2


def carried_over(comm):
    rank, one = comm.world.rank, Compressed(8, SOME_BUCKETS).attach(new_model(), comm)
    other = Compressed(8, SOME_BUCKETS).attach(new_model(), comm)
    for step in (1, 2):
        exchange(one, rank, step)
    kept = deal(comm, collect(comm, one.memory.state()))
    exchange(other, rank, 1)
    other.memory.load(kept)
    same = torch.equal(left(one), left(other))
    exchange(other, rank, 0, moved=False)  # DDP makes its buckets anew after the first
    return same, torch.equal(exchange(one, rank, 3), exchange(other, rank, 3))


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_what_is_late_is_in_the_checkpoint(ranks):
    assert ranks.run(carried_over) == [(True, True)] * 2


def test_words_with_matrices_of_their_own_are_never_late():
    assert delayed_embedding_grad_of(torch.nn.Linear(2, 2)) is None
    untied = msgspec.structs.replace(SETTINGS, tied_embeddings=False)
    assert delayed_embedding_grad_of(new_model(untied)) is None
