import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.batching.plan import batch_by_length, plan_epoch
from unisono.batching.settings import Budget
from unisono.errors import ConfigError

RNG = np.random.default_rng(1)
SOURCE = RNG.integers(1, 40, size=500).astype(np.int32)
TARGET = RNG.integers(1, 40, size=500).astype(np.int32)
BUDGET = Budget(tokens_per_update=800, tokens_per_micro_batch=200)


def plan(epoch=1, seed=7, budget=BUDGET):
    return plan_epoch(SOURCE, TARGET, budget, seed=seed, epoch=epoch)


def indices_of(steps):
    return [i for step in steps for batch in step.micro_batches for i in batch.indices.tolist()]


def test_every_micro_batch_keeps_to_the_budget():
    longer = np.maximum(SOURCE, TARGET) + 1
    for step in plan():
        for batch in step.micro_batches:
            assert longer[batch.indices].max() * len(batch.indices) <= 200


def test_every_pair_is_used_exactly_once_in_an_epoch():
    assert sorted(indices_of(plan())) == list(range(500))


def test_the_tokens_of_a_step_are_those_of_its_pairs():
    for step in plan():
        chosen = indices_of([step])
        assert step.target_tokens == (TARGET[chosen] + 1).sum()
        assert step.source_tokens == (SOURCE[chosen] + 1).sum()
        assert step.sentences == len(chosen)
        assert step.positions >= step.target_tokens + step.source_tokens


def test_updates_are_of_nearly_equal_size():
    sizes = {len(step.micro_batches) for step in plan()}
    assert max(sizes) - min(sizes) <= 1
    assert BUDGET.micro_batches_per_update in sizes


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_any_number_of_processes_sees_the_same_updates(size):
    for step in plan():
        shared = [batch.number for rank in range(size) for batch in step.share(rank, size)]
        assert sorted(shared) == list(range(len(step.micro_batches)))


def test_epochs_and_seeds_differ_and_each_is_repeatable():
    assert indices_of(plan()) == indices_of(plan())
    assert indices_of(plan(epoch=1)) != indices_of(plan(epoch=2))
    assert indices_of(plan(seed=1)) != indices_of(plan(seed=2))


def test_sentences_meet_other_neighbours_in_another_epoch():
    def neighbours(epoch):
        groups = [b.indices.tolist() for step in plan(epoch) for b in step.micro_batches]
        return {frozenset(group) for group in groups}

    assert neighbours(1) != neighbours(2)


def test_a_plan_can_be_entered_anywhere():
    whole = [indices_of([step]) for step in plan()]
    assert [indices_of([plan()[i]]) for i in range(len(plan()))] == whole
    with pytest.raises(IndexError):
        plan()[len(plan())]


def test_a_sentence_longer_than_a_batch_is_refused():
    long = np.array([3, 300], dtype=np.int32)
    with pytest.raises(ConfigError, match=r"pair 1 has 301 tokens") as error:
        plan_epoch(long, long, BUDGET, seed=1, epoch=1)
    assert "301" in error.value.fix


def test_no_pairs_at_all_are_refused():
    nothing = np.array([], dtype=np.int32)
    with pytest.raises(ConfigError, match="no pairs"):
        plan_epoch(nothing, nothing, BUDGET, seed=1, epoch=1)


def brute_force(source, target, limit):
    order = np.lexsort((np.arange(len(source)), source, target))
    batches, batch, widest = [], [], 0
    for index in order.tolist():
        size = max(source[index], target[index]) + 1
        if batch and max(widest, size) * (len(batch) + 1) > limit:
            batches.append(batch)
            batch, widest = [], 0
        batch.append(index)
        widest = max(widest, size)
    return [*batches, batch]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80))
def test_filling_equals_the_obvious_loop(pairs):
    source, target = (np.array(side, dtype=np.int32) for side in zip(*pairs, strict=True))
    found = [batch.tolist() for batch in batch_by_length(source, target, 64)]
    assert found == brute_force(source, target, 64)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([1, 2, 70_000])), min_size=1),
    st.integers(0, 9),
)
def test_pairs_are_sorted_by_target_then_source_and_ties_at_random(lengths, seed):
    source, target = (np.array(side, np.int32) for side in zip(*lengths, strict=True))
    ties = np.random.default_rng(seed).permutation(len(source))
    batches = batch_by_length(source, target, 70_001, np.random.default_rng(seed))
    expected = np.lexsort((ties, source, target))
    assert np.concatenate(batches).tolist() == expected.tolist()
