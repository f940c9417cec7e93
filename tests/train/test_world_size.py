"""The promise in the name: an update does not depend on how its batch was cut up.

Plain SGD without clipping, on purpose: Adam divides the scale of the gradient out again,
and would hide a gradient that is wrong by a constant factor.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from support.tiny import tiny_settings
from unisono.batching.plan import MicroBatch, StepPlan
from unisono.batching.stream import PreparedUpdate, Stream, collate
from unisono.comm.group import Solo
from unisono.comm.strategies.build import implementation_of
from unisono.corpus.reader import open_corpus
from unisono.cost_model.strategies import STRATEGIES
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.schedules import Constant
from unisono.train.precision import Precision
from unisono.train.step import Parts, StepRequests, take_step

EXACT = [name for name, strategy in STRATEGIES.items() if strategy.exact]

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "word_dropout")
NONE, ALL = dict.fromkeys(DROPOUTS, 0.0), dict.fromkeys(DROPOUTS, 0.3)


def new_parts(comm, strategy, vocabulary, dropouts, kind="fp32"):
    torch.manual_seed(0)
    sizes = TransformerSettings(
        width=16,
        heads=2,
        inner=32,
        encoder_layers=1,
        decoder_layers=1,
        **dropouts,
    )
    model = build_model(sizes, vocabulary).train()
    return Parts(
        replica=implementation_of(strategy)().attach(model, comm),
        comm=comm,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        schedule=Constant(peak=0.5),
        seed=5,
        label_smoothing=0.1,
        precision=Precision(kind),
    )


def weights_after(comm, strategy, home, steps=3, dropouts=ALL, kind="fp32"):
    """Take some steps on this process's share and return all weights."""
    torch.set_num_threads(1)
    corpus = open_corpus(Path(home) / "corpus")
    parts = new_parts(comm, strategy, corpus.manifest.vocabulary, dropouts, kind)
    budget = tiny_settings(Path(home)).batching
    world = comm.world
    stream = Stream(corpus.split("train"), budget, 5, world.rank, world.size)
    works = stream.from_position(1, 0)
    for step in range(1, steps + 1):
        result = take_step(parts, next(works), step, StepRequests())
    works.close()
    weights = {name: w.detach().numpy() for name, w in parts.replica.module.named_parameters()}
    return {"loss": np.array(result.loss), "norm": np.array(result.gradient_norm), **weights}


def assert_same(one, other, rtol=2e-5, atol=2e-6):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=rtol, atol=atol, err_msg=name)


def after_one_step_in_pieces(home, pieces, kind="fp32"):
    """Take one step on 40 pairs that go through the model in `pieces` parts."""
    corpus = open_corpus(Path(home) / "corpus")
    split, indices = corpus.split("train"), np.arange(40)
    parts = new_parts(Solo(), "all_reduce", corpus.manifest.vocabulary, NONE, kind)
    cut = tuple(MicroBatch(i, part) for i, part in enumerate(np.array_split(indices, pieces)))
    tokens = int((split.target_lengths[indices] + 1).sum())
    plan = StepPlan(1, cut, 0, tokens, 0, 40)
    batches = tuple(collate(split, batch.indices, batch.number) for batch in cut)
    result = take_step(parts, PreparedUpdate(plan, 0, 1, batches), 1, StepRequests())
    weights = {name: w.detach().numpy() for name, w in parts.replica.module.named_parameters()}
    return {"loss": np.array(result.loss), **weights}


@pytest.mark.parametrize("pieces", [2, 4, 7])
def test_micro_batches_make_the_update_one_batch_would(corpus_home, pieces):
    assert_same(
        after_one_step_in_pieces(corpus_home, 1), after_one_step_in_pieces(corpus_home, pieces)
    )


def test_pieces_in_bf16_differ_by_no_more_than_their_rounding(corpus_home):
    whole, cut = (after_one_step_in_pieces(corpus_home, pieces, "bf16") for pieces in (1, 4))
    assert_same(whole, cut, rtol=2**-8, atol=2**-9)
    with pytest.raises(AssertionError):  # bf16 it is
        assert_same(whole, after_one_step_in_pieces(corpus_home, 1))


def test_the_loss_is_per_token_of_the_whole_update(corpus_home):
    found = after_one_step_in_pieces(corpus_home, 4)["loss"]
    assert 0.5 * np.log(64) < found < 2 * np.log(64)  # an untrained model guesses


@pytest.mark.ranks
@pytest.mark.parametrize("strategy", EXACT)
def test_several_processes_make_the_update_one_would(ranks, corpus_home, strategy):
    alone = weights_after(Solo(), "all_reduce", corpus_home)
    for theirs in ranks.run(weights_after, strategy, str(corpus_home)):
        assert_same(alone, theirs)


@pytest.mark.ranks
@pytest.mark.parametrize("strategy", EXACT)
def test_in_bf16_too_several_processes_make_the_update_one_would(ranks, corpus_home, strategy):
    # One step: after it, a last bit that differs may round a weight to another number.
    alone = weights_after(Solo(), "all_reduce", corpus_home, 1, ALL, "bf16")
    for theirs in ranks.run(weights_after, strategy, str(corpus_home), 1, ALL, "bf16"):
        assert_same(alone, theirs)


def test_each_dropout_has_a_hand_in_the_update(corpus_home):
    """Otherwise the tests above would not show that it is the same on all processes."""
    choices = [NONE, *({**NONE, kind: 0.3} for kind in DROPOUTS)]
    found = [weights_after(Solo(), "all_reduce", corpus_home, 1, each) for each in choices]
    assert len({float(weights["loss"]) for weights in found}) == len(choices)


@pytest.mark.ranks
@pytest.mark.parametrize("strategy", EXACT)
def test_replicas_agree_to_the_last_bit(ranks, corpus_home, strategy):
    first, *others = ranks.run(weights_after, strategy, str(corpus_home), 8)
    for other in others:
        for name, value in first.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def wishes_of(comm, home):
    corpus = open_corpus(Path(home) / "corpus")
    parts = new_parts(comm, "ddp", corpus.manifest.vocabulary, NONE)
    budget, world = tiny_settings(Path(home)).batching, comm.world
    stream = Stream(corpus.split("train"), budget, 5, world.rank, world.size)
    works = stream.from_position(1, 0)
    mine = StepRequests(
        stop="signal" if world.rank == 1 else "max_time" if world.rank == 0 else "",
        save=world.rank == world.size - 1,
    )
    first = take_step(parts, next(works), 1, mine)
    if world.rank == 1:  # one process's numbers go wrong: nobody may move
        for weight in parts.replica.module.parameters():
            weight.data.mul_(float("nan"))
    before = [w.detach().clone() for w in parts.replica.module.parameters()]
    second = take_step(parts, next(works), 2, StepRequests(failed=world.rank == 1))
    works.close()
    after = list(parts.replica.module.parameters())
    moved = not all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    return first.stop, first.save, first.skipped, second.skipped, moved, second.failed_ranks


@pytest.mark.ranks
def test_one_process_stops_saves_skips_or_fails_for_all(ranks, corpus_home):
    found = ranks.run(wishes_of, str(corpus_home))
    for rank, (stop, save, skipped, skipped_then, moved, failed) in enumerate(found):
        assert (stop, save, skipped) == ("signal", True, False)
        assert skipped_then
        assert failed == (1,)
        assert rank == 1 or not moved
