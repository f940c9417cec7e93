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
from unisono.comm.protocol import World
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.models import cpu_bf16
from unisono.models.settings import TransformerSettings
from unisono.records.events import Started, StepTaken, Warned
from unisono.train import precision
from unisono.train.checkpoints import checkpoint
from unisono.train.job import run_with
from unisono.train.precision import (
    GROW_AFTER,
    KINDS,
    LARGEST_SCALE,
    LossScale,
    Precision,
    agreed_precision,
    check_precision,
    fastest_precision,
)
from unisono.train.run_lock import recorded_precision
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


def on_cards(monkeypatch, *capabilities):
    """Stand in for GPUs cuda:0, cuda:1, … of these capabilities."""
    cards = {f"cuda:{number}": one for number, one in enumerate(capabilities)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", cards.__getitem__)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {cards[device]}")
    return list(cards)


MODEL = TransformerSettings()
CARDS = {(6, 0): "fp32", (7, 0): "fp16", (7, 5): "fp16", (8, 0): "bf16", (9, 0): "bf16"}


@pytest.mark.parametrize(("capability", "kind"), CARDS.items())
def test_what_a_card_is_fastest_in(monkeypatch, capability, kind):
    (device,) = on_cards(monkeypatch, capability)
    assert fastest_precision(device, MODEL) == kind


class Gathered(Solo):
    """A process of several, whose others have the devices `others`."""

    others = ()

    def gather(self, numbers):
        found = [[KINDS.index(fastest_precision(one, MODEL)), -1] for one in self.others]
        return [list(numbers), *found]


@pytest.mark.parametrize(
    ("capabilities", "kind"),
    [
        (((8, 0), (8, 0)), "bf16"),
        (((8, 0), (7, 0)), "fp16"),
        (((7, 5), (6, 0)), "fp32"),
        (((9, 0), (7, 5), (8, 0)), "fp16"),
    ],
)
def test_all_agree_on_what_the_weakest_card_can(monkeypatch, capabilities, kind):
    first, *others = on_cards(monkeypatch, *capabilities)
    comm = Gathered(World(device=first))
    monkeypatch.setattr(Gathered, "others", tuple(others))
    assert agreed_precision(comm, "", MODEL) == kind
    assert agreed_precision(comm, "fp32", MODEL) == "fp32"  # a continued run keeps its own


def test_emulated_bf16_is_refused(monkeypatch):
    (device,) = on_cards(monkeypatch, (7, 0))
    with pytest.raises(ConfigError, match="has no bf16: torch would emulate it"):
        check_precision(Precision("bf16", device))


def test_auto_on_a_cpu_takes_what_the_measured_product_says(monkeypatch):
    measured = []

    def gain(width, inner):
        measured.append((width, inner))
        return 2.0 if inner == 2048 else 1.1

    monkeypatch.setattr(cpu_bf16, "product_gain", gain)
    monkeypatch.setattr(cpu_bf16, "has_bf16", lambda: True)
    choices = {(512, 2048): "bf16", (256, 1024): "fp32", (64, 2048): "fp32"}
    for (width, inner), kind in choices.items():
        cpu_bf16.bf16_pays.cache_clear()
        assert fastest_precision("cpu", TransformerSettings(width=width, inner=inner)) == kind
    assert measured == [(512, 2048), (256, 1024)]  # a narrow model is mostly not products
    monkeypatch.setattr(cpu_bf16, "has_bf16", lambda: False)
    cpu_bf16.bf16_pays.cache_clear()
    assert fastest_precision("cpu", MODEL) == "fp32"
    cpu_bf16.bf16_pays.cache_clear()


def test_a_measured_product_pays_only_where_the_processor_has_bf16():
    gain = cpu_bf16.product_gain(128, 512)
    if cpu_bf16.has_bf16():
        pytest.skip(f"this processor has bf16 (a product gains {gain:.1f} times)")
    assert 0 < gain < cpu_bf16.LEAST_GAIN  # emulated, it is slower


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile", True),
        ("flags\t\t: fpu avx512f avx512_vnni", False),
        ("Features\t: fp asimd bf16", True),
        ("model name\t: bf16", False),
    ],
)
def test_what_a_processor_can_do_is_read_from_linux(tmp_path, monkeypatch, line, known):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\n")
    monkeypatch.setattr(cpu_bf16, "Path", lambda _: tmp_path / "cpuinfo")
    assert cpu_bf16.has_bf16.__wrapped__() == known


def test_a_run_keeps_the_precision_it_began_with(corpus_home, tmp_path, monkeypatch):
    home = link_corpus(corpus_home, tmp_path)

    def started(pays, step):
        monkeypatch.setattr(precision, "bf16_pays", lambda *_: pays)
        train = {"max_steps": step}
        settings = tiny_settings(home, train=train, validation={"bleu": False})
        events = list(run_with(Solo(), settings))
        warned = any("has no bf16" in e.message for e in events if isinstance(e, Warned))
        assert warned != cpu_bf16.has_bf16()
        return next(e.precision for e in events if isinstance(e, Started))

    assert started(pays=True, step=1) == "bf16"
    assert 'precision = "bf16"' in (home / "run" / "config.toml").read_text()
    assert started(pays=False, step=2) == "bf16"


def test_auto_for_a_narrow_model_on_a_cpu_is_fp32_and_recorded(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    settings = tiny_settings(home, train={"max_steps": 1}, validation={"bleu": False})
    assert settings.train.precision == "auto"
    (started,) = [e for e in run_with(Solo(), settings) if isinstance(e, Started)]
    assert started.precision == "fp32"
    config = home / "run" / "config.toml"
    assert 'precision = "fp32"' in config.read_text()
    # A run of a version without the setting computed in fp32, whatever is faster here.
    config.write_text(config.read_text().replace('precision = "fp32"\n', ""))
    assert recorded_precision(settings) == "fp32"
    further = tiny_settings(home, train={"max_steps": 2}, validation={"bleu": False})
    assert any(isinstance(e, StepTaken) for e in run_with(Solo(), further))
    assert recorded_precision(replace(settings, run="")) == ""
