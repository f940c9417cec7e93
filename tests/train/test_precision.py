import dataclasses
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from train.test_world_size import NONE, new_parts
from unisono.batching.stream import Stream
from unisono.comm.group import Solo
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.records.events import StepTaken
from unisono.train.checkpoints import checkpoint
from unisono.train.job import run_with
from unisono.train.precision import (
    GROW_AFTER,
    LARGEST_SCALE,
    LossScale,
    Precision,
    check_precision,
)
from unisono.train.step import StepControls, StepRequests, take_step


def one_update(home, kind, scale=1.0):
    """Return the loss, the norm and the weights after an update in this precision."""
    torch.set_num_threads(1)
    corpus = open_corpus(Path(home) / "corpus")
    parts = new_parts(Solo(), "all_reduce", corpus.manifest.vocabulary, NONE)
    parts = dataclasses.replace(parts, precision=Precision(kind))
    works = Stream(corpus.split("train"), tiny_settings(Path(home)).batching, 5).from_position(
        1, 0
    )
    result = take_step(parts, next(works), 1, StepRequests(), StepControls(loss_scale=scale))
    works.close()
    return result, dict(parts.replica.module.named_parameters())


@pytest.mark.parametrize(("kind", "scale"), [("bf16", 1.0), ("fp16", 2.0**10)])
def test_half_the_bits_make_nearly_the_same_update_of_fp32_weights(corpus_home, kind, scale):
    exact, wanted = one_update(corpus_home, "fp32")
    near, found = one_update(corpus_home, kind, scale)
    assert near.loss != exact.loss
    assert near.loss == pytest.approx(exact.loss, rel=0.01)
    assert near.gradient_norm == pytest.approx(exact.gradient_norm, rel=0.02)
    for name, weight in found.items():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, wanted[name], rtol=0.05, atol=0.01)


def test_a_scale_of_the_loss_changes_nothing_in_fp32(corpus_home):
    plain, wanted = one_update(corpus_home, "fp32")
    scaled, found = one_update(corpus_home, "fp32", scale=2.0**10)
    assert scaled.loss == plain.loss
    assert scaled.gradient_norm == plain.gradient_norm
    for name, weight in found.items():
        assert torch.equal(weight, wanted[name]), name


def test_a_scale_too_high_is_skipped(corpus_home):
    result, _ = one_update(corpus_home, "fp16", scale=2.0**40)
    assert result.skipped


def test_the_scale_halves_on_overflow_and_doubles_after_a_while():
    scale = LossScale(8.0)
    for _ in range(GROW_AFTER - 1):
        scale = scale.after(skipped=False)
    assert scale.value == 8.0
    assert scale.after(skipped=False) == LossScale(16.0, 0)
    assert scale.after(skipped=True) == LossScale(4.0, 0)
    assert LossScale(1.0).after(skipped=True).value == 1.0
    top = LossScale(LARGEST_SCALE, GROW_AFTER - 1)
    assert top.after(skipped=False).value == LARGEST_SCALE


def test_a_run_in_fp16_lowers_its_scale_until_it_learns(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    torch.set_num_threads(1)

    def train_to(step):
        table = {"precision": "fp16", "max_steps": step}
        settings = tiny_settings(home, train=table, validation={"bleu": False})
        return [e for e in run_with(Solo(), settings) if isinstance(e, StepTaken)]

    train_to(2)
    where = home / "run" / "checkpoints"
    saved = checkpoint.load(where / "step-0000002")
    far_too_high = replace(saved.progress, loss_scale=LossScale(2.0**44))
    checkpoint.save(where, far_too_high, saved.model, saved.optimizer)
    steps = train_to(45)
    skipped = [step.skipped for step in steps]
    assert all(skipped[:20])  # as many as a run may lose for other reasons
    assert not any(skipped[-5:])
    assert steps[-1].loss < steps[0].loss
    scale = checkpoint.load(where / "step-0000045").progress.loss_scale
    assert scale.value == 2.0 ** (44 - skipped.count(True))
    assert scale.updates == skipped[::-1].index(True)


def test_what_torch_cannot_do_is_refused_before_anything_starts():
    for kind in ("fp32", "bf16", "fp16"):
        check_precision(Precision(kind))
    with pytest.raises(ConfigError, match="cannot train in bf16 on meta"):
        check_precision(Precision("bf16", "meta"))
