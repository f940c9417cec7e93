"""Which checkpoints stay, which one is the best, and that it is the one shipped."""

import pytest
import torch
from safetensors.torch import load_file

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.bundle.reader import open_bundle
from unisono.comm.group import Solo
from unisono.records.view import read_run
from unisono.train.checkpoints import checkpoint
from unisono.train.job import run_with


def trained(home, best, keep):
    """Train at a rate that does good at first and harm later; return the run directory."""
    torch.set_num_threads(1)
    settings = tiny_settings(
        home,
        schedule={"name": "inverse_sqrt", "peak": 2.0, "warmup_steps": 48},
        train={"max_steps": 36, "guard": False},
        validation={"every_steps": 4, "best": best, "samples": 0},
        checkpoint={"every_steps": 3, "keep": keep},
    )
    for _ in run_with(Solo(), settings):
        pass
    return home / "run"


@pytest.mark.parametrize(("by", "keep"), [("loss", 2), ("bleu", 4)])
def test_the_best_is_the_best_and_the_newest_are_kept(corpus_home, tmp_path, by, keep):
    run = trained(link_corpus(corpus_home, tmp_path), by, keep)
    validations = read_run(run).validations
    scores = [v.bleu if by == "bleu" else -v.loss for v in validations]
    best = validations[scores.index(max(scores))].step  # of equals the first
    assert best < 36
    assert checkpoint.pointed(run / "checkpoints", "best") == checkpoint.name_of(best)
    assert checkpoint.pointed(run / "checkpoints", "latest") == checkpoint.name_of(36)
    assert [v.step for v in validations if v.best][-1] == best

    saved = sorted({event.step for event in read_run(run).saves})
    guard = checkpoint.load(run / "checkpoints" / checkpoint.name_of(36)).progress.guard
    wanted = {*saved[-keep:], best, *guard.safe, *guard.next_safe} - {0}
    left = {checkpoint.name_of(step) for step in wanted}
    assert set(checkpoint.names(run / "checkpoints")) == left

    shipped = open_bundle(run / "bundle")
    assert shipped.description.step == best
    weights = load_file(run / "checkpoints" / checkpoint.name_of(best) / checkpoint.MODEL)
    found = shipped.model().state_dict()
    assert all(torch.equal(weight, found[name]) for name, weight in weights.items())
