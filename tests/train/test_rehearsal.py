"""A run before the run: refused for the same reasons, and the same on every process."""

from pathlib import Path

import pytest

from support.tiny import tiny_settings
from unisono.comm.solo import Solo
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.models.size import matrix_shapes
from unisono.physics.exchange import narrowed
from unisono.train.rehearsal import LATE_SECONDS, rehearse, run_rehearsal


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"sync": {"strategy": "diloco", "warmup_steps": 1}},
            "diloco with one process is a no-op",
        ),
        ({"corpus": {"drop_overlap": True}}, "the corpus was prepared with drop_overlap"),
    ],
)
def test_what_training_would_refuse_is_refused_before_anything_is_measured(
    corpus_home, tables, message
):
    told = []
    with pytest.raises(ConfigError, match=message):
        run_rehearsal(tiny_settings(corpus_home, **tables), 0.1, told.append)
    assert not any("measuring" in text for text in told)


def test_rounds_that_take_too_long_are_fewer(corpus_home):
    corpus = open_corpus(corpus_home / "corpus")
    found = rehearse(Solo(), tiny_settings(corpus_home), corpus, -LATE_SECONDS, whole=False)
    assert len(found.processes[0].updates) == len(found.processes[0].sums) == 2


def measured_by_all(comm, home):
    """Rehearse updates of five micro-batches, which two processes cannot share evenly."""
    settings = tiny_settings(
        Path(home),
        batching={"tokens_per_update": 500},
        sync={"strategy": "powersgd", "low_rank": 2, "warmup_steps": 3},
        train={"max_steps": 12, "average": 0.9},
    )
    corpus = open_corpus(Path(settings.corpus.directory))
    return rehearse(comm, settings, corpus, -LATE_SECONDS, whole=False)


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
    assert job.narrow_numbers == vectors + sum(narrowed(*shape, 2) for shape in shapes)
