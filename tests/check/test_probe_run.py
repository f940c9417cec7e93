"""A run before the run: refused for the same reasons, and the same on every process."""

import resource
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

from support.tiny import tiny_settings
from unisono.batching.stream import longest
from unisono.check.probe_run import LATE_SECONDS, probe, run_probe
from unisono.check.probe_updates import SPARE_SECONDS, NoExchange, ProbeUpdates
from unisono.comm.group import Solo
from unisono.comm.protocol import World
from unisono.corpus.reader import open_corpus
from unisono.cost_model.exchange import low_rank_numbers
from unisono.errors import ConfigError, UnisonoError
from unisono.models.settings import matrix_shapes
from unisono.models.transformer import TransformerModel
from unisono.train.build import build_session, stream_of
from unisono.train.process_setup import Signals


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"sync": {"strategy": "diloco", "warmup_steps": 1}},
            "diloco with one process is a no-op",
        ),
        (
            {
                "sync": {"strategy": "powersgd", "warmup_steps": 1000},
                "train": {"max_steps": 0, "max_epochs": 2},
            },
            "`powersgd` would never begin: 1000 updates are exact",
        ),
        ({"corpus": {"drop_overlap": True}}, "the corpus was prepared with drop_overlap"),
    ],
)
def test_what_training_would_refuse_is_refused_before_anything_is_measured(
    corpus_home, tables, message
):
    told = []
    with pytest.raises(ConfigError, match=message):
        run_probe(tiny_settings(corpus_home, **tables), 0.1, told.append)
    assert not any("measuring" in text for text in told)


def test_rounds_that_take_too_long_are_fewer(corpus_home):
    corpus = open_corpus(corpus_home / "corpus")
    found = probe(Solo(), tiny_settings(corpus_home), corpus, -LATE_SECONDS, whole=False)
    assert len(found.processes[0].updates) == len(found.processes[0].sums) == 2


def measured_by_all(comm, home):
    """Probe updates of five micro-batches, which two processes cannot share evenly."""
    settings = tiny_settings(
        Path(home),
        batching={"tokens_per_update": 500},
        sync={"strategy": "powersgd", "low_rank": 2, "warmup_steps": 3},
        train={"max_steps": 12, "average": 0.9},
    )
    corpus = open_corpus(Path(settings.corpus.directory))
    return probe(comm, settings, corpus, -LATE_SECONDS, whole=False)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_every_process_comes_to_the_same(ranks, corpus_home):
    first, *others = ranks.run(measured_by_all, str(corpus_home))
    assert len(first.processes) == ranks.size
    assert all(other == first for other in others)
    job, model = first.job, tiny_settings(corpus_home).model
    assert (job.warmup_steps, job.closing_steps, job.averages) == (3, 0, True)
    assert (job.evaluations, job.checkpoints) == (3, 3)
    shapes = matrix_shapes(model, open_corpus(corpus_home / "corpus").manifest.vocabulary)
    vectors = job.parameters - sum(rows * columns for rows, columns in shapes)
    assert job.low_rank_numbers == vectors + sum(
        low_rank_numbers(*shape, 2) for shape in shapes
    )


def test_what_has_no_time_is_left_out_and_told(corpus_home):
    corpus, settings = open_corpus(corpus_home / "corpus"), tiny_settings(corpus_home)
    hasty = probe(Solo(), settings, corpus, -SPARE_SECONDS - 1)
    assert hasty.unmeasured == ("evaluations", "checkpoints", "translations")
    assert len(hasty.processes[0].updates) == 2
    usual = probe(Solo(), settings, corpus, -LATE_SECONDS)
    assert usual.unmeasured == ()
    assert min(usual.translation_seconds, usual.checkpoint_seconds) > 0


def slow_forward(seconds):
    """Let every pass through a model take so long; return what ends that."""

    def wait(module, *_):
        if isinstance(module, TransformerModel):
            time.sleep(seconds)

    return register_module_forward_hook(wait)


def test_a_slow_model_is_computed_less_often(corpus_home):
    corpus, settings = open_corpus(corpus_home / "corpus"), tiny_settings(corpus_home)
    slow = slow_forward(seconds=1.0)
    try:
        found = probe(Solo(), settings, corpus, 9 - SPARE_SECONDS)
    finally:
        slow.remove()
    # Passes of 1 s: one that shows whether it fits, two rounds, one evaluation.
    assert found.seconds < 9 + 1
    assert found.processes[0].updates[0].forward > 1
    assert found.evaluation_seconds > 1


def one_is_late(comm, home, late):
    began = time.perf_counter() - (100 if comm.world.rank == late else 0)
    settings = tiny_settings(Path(home))
    corpus = open_corpus(Path(settings.corpus.directory))
    return probe(comm, settings, corpus, 0.1, began=began)


@pytest.mark.ranks
@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_all_leave_out_what_one_has_no_time_for(ranks, corpus_home, late):
    first, second = ranks.run(one_is_late, str(corpus_home), late)
    assert first == second
    assert first.job.gradients == ()
    assert first.unmeasured == (
        "when each gradient is ready",
        "evaluations",
        "checkpoints",
        "translations",
    )


def too_little_memory_on_one(comm, home):
    """Probe micro-batches of 60 MB for each of many activations, with 20 MB on one."""
    settings = tiny_settings(
        Path(home),
        model={"inner": 1 << 14},
        batching={"tokens_per_update": 1000, "tokens_per_micro_batch": 1000},
    )
    corpus = open_corpus(Path(settings.corpus.directory))
    torch.optim.Adam([torch.zeros(1)])  # the first optimizer imports more of torch
    before = resource.getrlimit(resource.RLIMIT_AS)
    if comm.world.rank == 1:
        there = psutil.Process().memory_info().vms + 20_000_000
        resource.setrlimit(resource.RLIMIT_AS, (there, before[1]))
    try:
        probe(comm, settings, corpus, -LATE_SECONDS)
    except UnisonoError as error:
        return type(error).__name__, str(error), error.exit_code
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    return None


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_what_does_not_fit_into_one_memory_is_told_by_all(ranks, corpus_home):
    leading, (name, text, code) = ranks.run(too_little_memory_on_one, str(corpus_home))
    assert (name, code) == ("ConfigError", 2)
    assert "do not fit into the memory of cpu" in text
    assert "lower `batching.tokens_per_micro_batch`" in text
    assert "process 1 failed: the model and its batch do not fit" in leading[1]
    assert leading[2] == 2


def test_the_first_update_has_the_longest_sentences(corpus_home):
    settings = tiny_settings(corpus_home)
    corpus = open_corpus(Path(settings.corpus.directory))
    stream = stream_of(settings, corpus, Solo())
    split, batch = stream.split, longest(stream)
    lengths = np.maximum(split.source_lengths, split.target_lengths) + 1
    widest = max(batch.source.shape[1], batch.target_in.shape[1])
    assert widest == lengths.max()
    assert widest * len(batch.source) <= 100 < widest * (len(batch.source) + 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_gradients_of_a_gpu_are_ready_when_they_have_been_computed(corpus_home):
    settings = tiny_settings(corpus_home, device="cuda", model={"width": 512, "inner": 2048})
    corpus = open_corpus(Path(settings.corpus.directory))
    comm = Solo(World(device="cuda:0"))
    session, model = build_session(settings, corpus, comm, Signals(), NoExchange())
    with closing(ProbeUpdates(session)) as trial:
        seen = trial.gradients(model, 3)
    # Kernels are launched long before they end: the last one would seem ready early.
    assert seen[-1].ready > 0.9
