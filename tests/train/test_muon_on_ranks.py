"""Muon on several processes: one update for all, whether its iteration is shared or not."""

from pathlib import Path

import numpy as np
import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import assert_identical, final_state, link_corpus
from train.test_resume_features import LAST, train
from train.test_world_size import ALL, new_parts
from unisono.batching.stream import Stream
from unisono.comm.group import Solo
from unisono.comm.strategies.build import implementation_of
from unisono.corpus.reader import open_corpus
from unisono.cost_model.strategies import STRATEGIES
from unisono.optim.build import build_optimizer
from unisono.optim.muon import MuonWithAdam
from unisono.optim.settings import Muon
from unisono.optim.shared_muon import IterationCost, SharedMuon, iteration_cost
from unisono.schedules import Constant
from unisono.train.step import Parts, StepRequests, take_step

MUON = {"optimizer": {"name": "muon", "weight_decay": 0.1}, "train": {"word_rate": 2.0}}
RATE = 0.02


class Counted(SharedMuon):
    """Counts the exchanges of the iteration, and the numbers that this process sent."""

    sent: list[int] = []

    def gathered(self, mine):
        self.sent.append(mine.numel())
        return super().gathered(mine)


def muon_parts(comm, strategy, vocabulary, *, shared):
    made = new_parts(comm, "all_reduce", vocabulary, ALL)
    model = made.replica.module
    optimizer = build_optimizer(Muon(weight_decay=0.1), model)
    replica = implementation_of(strategy)().attach(model, comm)
    assert isinstance(optimizer, MuonWithAdam)
    if shared:
        optimizer.sharing = Counted(comm, replica.memory, made.stopwatch)
    return Parts(replica, comm, optimizer, Constant(peak=RATE), 5, 0.1)


def after_updates(comm, strategy, home, shared=False, steps=3):
    """Return all weights after a few updates, and how often processes shared the iteration."""
    torch.set_num_threads(1)
    Counted.sent.clear()
    corpus = open_corpus(Path(home) / "corpus")
    parts = muon_parts(comm, strategy, corpus.manifest.vocabulary, shared=shared)
    budget, world = tiny_settings(Path(home)).batching, comm.world
    works = Stream(corpus.split("train"), budget, 5, world.rank, world.size).from_position(1, 0)
    for step in range(1, steps + 1):
        take_step(parts, next(works), step, StepRequests())
    works.close()
    weights = parts.replica.module.named_parameters()
    return {name: w.detach().numpy() for name, w in weights}, list(Counted.sent)


def assert_same_bits(one, other):
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.ranks
def test_several_processes_make_the_update_one_would(ranks, corpus_home):
    alone, _ = after_updates(Solo(), "all_reduce", corpus_home, steps=1)
    for theirs, _ in ranks.run(after_updates, "ddp", str(corpus_home), True, 1):
        for name, value in alone.items():
            # The iteration magnifies what rounding leaves of directions without a gradient.
            np.testing.assert_allclose(
                theirs[name], value, rtol=0, atol=0.05 * RATE, err_msg=name
            )


@pytest.mark.ranks
@pytest.mark.parametrize("strategy", [n for n, facts in STRATEGIES.items() if not facts.local])
def test_sharing_the_iteration_changes_no_bit(ranks, corpus_home, strategy):
    each = ranks.run(after_updates, strategy, str(corpus_home))
    shared = ranks.run(after_updates, strategy, str(corpus_home), True)
    for (weights, sent), (alone, none) in zip(shared, each, strict=True):
        assert sent
        assert not none
        assert_same_bits(weights, alone)
        assert_same_bits(weights, shared[0][0])


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("ranks", "strategy"),
    [*((2, name) for name in STRATEGIES if name != "all_reduce"), (3, "diloco")],
    indirect=["ranks"],
)
def test_killed_and_continued_to_the_last_bit(ranks, corpus_home, tmp_path, strategy):
    home = link_corpus(corpus_home, tmp_path)
    tables = {**MUON, "sync": {"strategy": strategy, "warmup_steps": 2, "local_steps": 2}}
    ranks.run(train, str(home), "whole", tables)
    ranks.run(train, str(home), "parts", tables, [3, 4])
    assert_identical(final_state(home / "whole", LAST), final_state(home / "parts", LAST))


def costs(comm, home):
    corpus = open_corpus(Path(home) / "corpus")
    parts = muon_parts(comm, "ddp", corpus.manifest.vocabulary, shared=False)
    return iteration_cost(parts.optimizer, comm)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_all_processes_come_to_one_decision(ranks, corpus_home):
    one, other = ranks.run(costs, str(corpus_home))
    assert one == other
    assert one.alone > 0


def test_sharing_pays_if_it_saves_a_tenth():
    assert IterationCost(1.0, 0.85).pays
    assert not IterationCost(1.0, 0.95).pays
