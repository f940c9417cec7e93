"""How many tokens go through the model at once: by the memory of GPUs that are stood in for."""

from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.comm.group import Solo
from unisono.comm.protocol import World
from unisono.config.load import load_settings
from unisono.models.memory import CONTEXT_BYTES, even_tokens, training_bytes
from unisono.models.settings import parameter_count
from unisono.records.events import StepTaken
from unisono.train.job import run_with
from unisono.train.micro_batches import agreed_tokens, settle_micro_batches, tokens_on
from unisono.train.preconditions import uneven_shares
from unisono.train.run_lock import recorded_micro_batch

ROOT = Path(__file__).parents[2]
GB = 10**9


def base(preset="base", precision="fp16", **changes):
    settings = load_settings(ROOT / "configs" / f"{preset}.toml")
    train = replace(settings.train, precision=precision)
    batching = replace(settings.batching, **changes)
    return replace(settings, run="", train=train, batching=batching)


def on_cards(monkeypatch, *sizes, others=0):
    """Stand in for GPUs cuda:0, cuda:1, … of so many bytes, of which `others` are taken."""
    cards = {f"cuda:{number}": one for number, one in enumerate(sizes)}
    free = {device: int(size - CONTEXT_BYTES - others) for device, size in cards.items()}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda d: (free[d], int(cards[d])))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    return list(cards)


class Gathered(Solo):
    """A process of several, whose others have the rest of `devices`."""

    def __init__(self, devices, settings):
        super().__init__(World(device=devices[0], size=len(devices)))
        self._others = devices[1:]
        self._settings = settings

    def gather(self, numbers):
        size = self.world.size
        rows = [[tokens_on(device, self._settings, size), 0] for device in self._others]
        return [list(numbers), *rows]


@pytest.mark.parametrize("size", [12 * GB, 16 * GB, 80 * GB])
@pytest.mark.parametrize(("preset", "precision"), [("base", "fp16"), ("big", "fp32")])
def test_what_is_chosen_fits_beside_what_every_strategy_keeps(
    monkeypatch, size, preset, precision
):
    settings = base(preset, precision)
    (device,) = on_cards(monkeypatch, size)
    fit = tokens_on(device, settings, 2)
    assert fit > 0
    taken = training_bytes(settings.model, 32_000, fit, precision) + CONTEXT_BYTES
    assert taken + 16 * parameter_count(settings.model, 32_000) <= 0.86 * size


@pytest.mark.parametrize(
    ("sizes", "update", "tokens"),
    [
        ((16 * GB,), 32_768, 16_384),  # two halves rather than 24,576 and the rest
        ((80 * GB,), 25_000, 12_500),
        ((80 * GB,), 24_576, 24_576),
        ((80 * GB,) * 4, 32_768, 8192),  # more would leave some without work
        ((80 * GB,) * 4, 400_000, 20_000),
        ((80 * GB, 6 * GB), 200_000, 5263),  # the smaller card decides
    ],
)
def test_all_processes_get_equal_shares_that_fit_the_smallest_card(
    monkeypatch, sizes, update, tokens
):
    settings = base(tokens_per_update=update)
    comm = Gathered(on_cards(monkeypatch, *sizes), settings)
    settled = settle_micro_batches(comm, settings)
    assert settled.batching.tokens_per_micro_batch == tokens
    assert uneven_shares(settled.batching, len(sizes)) == ""
    assert settle_micro_batches(comm, settled) == settled


def test_a_program_that_holds_memory_of_the_card_leaves_less(monkeypatch):
    settings = base(tokens_per_update=200_000)
    alone = on_cards(monkeypatch, 16 * GB)
    before = tokens_on(alone[0], settings, 1)
    on_cards(monkeypatch, 16 * GB, others=8 * GB)
    assert tokens_on(alone[0], settings, 1) < before / 2


def test_pieces_that_vary_get_room_to_grow(monkeypatch):
    (device,) = on_cards(monkeypatch, 8 * GB)
    usual = tokens_on(device, base(), 1)
    assert tokens_on(device, base(bpe_dropout=0.1), 1) == usual // 2


def test_the_longest_sentence_fits_even_where_memory_or_shares_are_too_small():
    assert even_tokens(0, 32_768, 1, 201) >= 201
    assert even_tokens(24_576, 32_768, 1000, 201) == 201
    assert even_tokens(24_576, 150, 1, 201) == 150  # `sanity` refuses such an update


def test_a_continued_run_keeps_its_micro_batches(monkeypatch):
    settings = base()
    comm = Gathered(on_cards(monkeypatch, 80 * GB, 80 * GB), settings)
    assert agreed_tokens(comm, settings, 4096) == 4096


def test_on_a_cpu_the_choice_is_recorded_and_kept(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    batching = {"tokens_per_update": 1000, "tokens_per_micro_batch": "auto"}
    quick = {"validation": {"bleu": False}, "batching": batching}
    settings = tiny_settings(home, train={"max_steps": 1}, **quick)
    assert recorded_micro_batch(settings) == 0
    assert any(isinstance(e, StepTaken) for e in run_with(Solo(), settings))
    config = home / "run" / "config.toml"
    assert "tokens_per_micro_batch = 1000\n" in config.read_text()
    # As if other devices had begun the run.
    config.write_text(config.read_text().replace("_batch = 1000\n", "_batch = 500\n"))
    further = tiny_settings(home, train={"max_steps": 2}, **quick)
    assert recorded_micro_batch(further) == 500
    assert any(isinstance(e, StepTaken) for e in run_with(Solo(), further))
    assert "tokens_per_micro_batch = 500\n" in config.read_text()
