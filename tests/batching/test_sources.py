import numpy as np
import pytest

from unisono.batching.plan import CorpusSource, plan_epoch, sample_epoch
from unisono.batching.settings import Budget


def counts(sources, epoch=1, seed=1):
    size = sum(source.pairs for source in sources)
    return np.bincount(sample_epoch(sources, seed=seed, epoch=epoch), minlength=size)


def test_a_whole_weight_takes_every_pair_that_often():
    taken = counts([CorpusSource(3), CorpusSource(2, weight=3.0)])
    assert taken.tolist() == [1, 1, 1, 3, 3]


def test_a_share_takes_another_part_each_time_until_all_had_their_turn():
    sources = [CorpusSource(5), CorpusSource(100, weight=0.25)]
    passes = [counts(sources, epoch)[5:] for epoch in (1, 2, 3, 4)]
    assert [taken.sum() for taken in passes] == [25] * 4
    assert (sum(passes) == 1).all()
    assert (passes[0] != passes[1]).any()


@pytest.mark.parametrize("weight", [0.4, 1.0, 1.7, 2.5])
def test_the_number_of_pairs_follows_the_weight(weight):
    assert counts([CorpusSource(10, weight)]).sum() == round(10 * weight)


def test_seeds_choose_other_pairs_and_each_is_repeatable():
    sources = [CorpusSource(1000, weight=0.5)]
    assert (counts(sources, seed=1) == counts(sources, seed=1)).all()
    assert (counts(sources, seed=1) != counts(sources, seed=2)).any()


def test_a_planned_epoch_takes_what_was_drawn():
    lengths = np.random.default_rng(1).integers(1, 40, 60).astype(np.int32)
    sources = [CorpusSource(20, weight=2.0), CorpusSource(40, weight=0.5)]
    budget = Budget(tokens_per_update=400, tokens_per_micro_batch=100)
    plan = plan_epoch(lengths, lengths, budget, seed=3, epoch=2, sources=sources)
    taken = np.concatenate([batch.indices for step in plan for batch in step.micro_batches])
    assert sorted(taken) == sorted(sample_epoch(sources, seed=3, epoch=2))
