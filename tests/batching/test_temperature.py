import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.batching.plan import (
    CorpusSource,
    apply_temperature,
    plan_epoch,
    sample_epoch,
    shares,
)
from unisono.batching.settings import Budget

BUDGET = Budget(tokens_per_update=800, tokens_per_micro_batch=200)


def taken_from(sources, epoch=1, seed=3):
    """Return how many pairs of each source an epoch takes."""
    drawn = sample_epoch(sources, seed=seed, epoch=epoch)
    bounds = np.cumsum([source.pairs for source in sources])
    return np.bincount(np.searchsorted(bounds, drawn, "right"), minlength=len(sources))


def test_a_temperature_of_1_changes_nothing():
    sources = [CorpusSource(10), CorpusSource(300, 0.5)]
    assert apply_temperature(sources, 1.0) == sources


@pytest.mark.parametrize("temperature", [1.0, 1.5, 2.0, 5.0, 100.0])
def test_sources_are_taken_in_proportion_to_a_root_of_their_size(temperature):
    sizes = [50, 400, 6000]
    sources = apply_temperature([CorpusSource(size) for size in sizes], temperature)
    roots = np.array(sizes) ** (1 / temperature)
    np.testing.assert_allclose(shares(sources), roots / roots.sum())
    np.testing.assert_allclose(taken_from(sources) / 6450, roots / roots.sum(), atol=1e-3)


def test_the_hotter_the_flatter():
    sources = [CorpusSource(100), CorpusSource(10_000)]
    small = [shares(apply_temperature(sources, t))[0] for t in (1, 2, 5, 20, 100)]
    assert small == sorted(small)
    assert small[0] == pytest.approx(0.0099, abs=1e-4)
    assert small[-1] == pytest.approx(0.5, abs=0.02)


def test_a_weight_counts_as_much_as_before():
    plain = shares(apply_temperature([CorpusSource(100), CorpusSource(10_000)], 5.0))
    doubled = shares(apply_temperature([CorpusSource(100, 2.0), CorpusSource(10_000)], 5.0))
    assert doubled[0] / doubled[1] == pytest.approx(2 * plain[0] / plain[1])


SOURCES = st.lists(
    st.builds(CorpusSource, st.integers(0, 2000), st.floats(0.1, 5.0)), min_size=1, max_size=5
).filter(lambda sources: any(source.pairs for source in sources))


@given(SOURCES, st.floats(1.0, 100.0), st.integers(1, 9))
def test_an_epoch_stays_as_large_as_it_is(sources, temperature, epoch):
    usual = sum(source.pairs * source.weight for source in sources)
    taken = taken_from(apply_temperature(sources, temperature), epoch)
    assert abs(taken.sum() - usual) <= len(sources) / 2 + 1e-6
    assert not taken[[source.pairs == 0 for source in sources]].any()


def test_all_pairs_of_a_large_source_have_their_turn():
    sources = apply_temperature([CorpusSource(20), CorpusSource(300)], 3.0)
    epochs = [sample_epoch(sources, seed=1, epoch=epoch) for epoch in range(1, 9)]
    assert set(epochs[0]) < set(range(320))
    assert set(np.concatenate(epochs)) == set(range(320))


def planned(temperature, epoch=2, seed=7):
    lengths = np.random.default_rng(1).integers(1, 40, 500).astype(np.int32)
    sources = apply_temperature([CorpusSource(60, 2.0), CorpusSource(440)], temperature)
    plan = plan_epoch(lengths, lengths[::-1], BUDGET, seed=seed, epoch=epoch, sources=sources)
    return [[batch.indices.tolist() for batch in step.micro_batches] for step in plan]


def test_a_plan_depends_on_nothing_but_what_it_is_made_of():
    assert planned(4.0) == planned(4.0)
    assert planned(4.0) != planned(1.0)
    assert planned(4.0) != planned(4.0, epoch=3)
    assert planned(4.0) != planned(4.0, seed=8)
