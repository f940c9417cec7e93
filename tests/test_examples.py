"""The examples: their commands exist, and what can be run here runs from end to end."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from unisono.cli import unisono
from unisono.config.load import load_settings
from unisono.models.memory import even_tokens, tokens_for
from unisono.models.settings import parameter_count, training_flops
from unisono.records.view import read_run

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TEXT = ROOT.parent / "shared" / "data" / "multi30k-en-de"
READMES = sorted(EXAMPLES.glob("*/README.md"))


def commands(page):
    """Return the commands of `unisono` in the shell blocks of a page, as lists of words."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))
    lines = [line.partition("  #")[0] for line in blocks.replace("\\\n", " ").splitlines()]
    words = [shlex.split(line) for line in lines]
    found = [line[line.index("unisono") + 1 :] for line in words if "unisono" in line]
    return [[word for word in line if word not in "<>"] for line in found]


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.parent.name)
def test_the_commands_of_an_example_exist_with_their_options(page):
    assert commands(page)
    for verb, *rest in commands(page):
        command, context = unisono, click.Context(unisono)
        for word in (verb, *rest):
            if not isinstance(command, click.Group):
                break
            command = command.get_command(context, word)
            assert command is not None, f"{page}: no {word}"
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= known


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.parent.name)
def test_the_files_an_example_names_are_there(page):
    for name in re.findall(r"examples/[\w/.-]+", page.read_text("utf-8")):
        assert (ROOT / name).exists(), name


def test_the_arithmetic_of_the_wmt_example():
    settings = load_settings(EXAMPLES / "wmt16-en-de" / "base.toml")
    text = (EXAMPLES / "wmt16-en-de" / "README.md").read_text("utf-8")
    weights = parameter_count(settings.model, settings.corpus.vocabulary)
    each = training_flops(settings.model, settings.corpus.vocabulary, 1, 30, 30) / 30
    tokens = settings.train.max_steps * settings.batching.tokens_per_update * 0.92
    assert f"{weights / 1e6:.1f} million" in text
    assert f"{each / 1e6:.0f} MFLOP" in text
    hours = each * tokens / (4 * 125e12 * 0.2) / 3600
    assert f"| 4 V100 | {hours:.1f} h |" in text
    assert f"{12 * weights / 1e6:.0f} MB" in text
    assert f"{2 * 3 / 4 * 4 * weights / 1e6:.0f} MB with R = 4" in text
    fit = tokens_for(settings.model, settings.corpus.vocabulary, "fp16", 16e9, 4)
    assert even_tokens(fit, settings.batching.tokens_per_update, 4, 201) == 8192
    assert "on four V100s four of 8,192 tokens" in text
    assert "Not yet run by us" in text


def test_the_rate_of_the_multi30k_example_comes_down_to_zero_at_its_end():
    settings = load_settings(EXAMPLES / "multi30k" / "train.toml")
    assert settings.train.max_steps == settings.schedule.total_steps
    assert settings.schedule(settings.train.max_steps) == pytest.approx(0, abs=1e-12)


SMALL = {
    "train.max_steps": 4,
    "schedule.warmup_steps": 2,
    "schedule.total_steps": 4,
    "checkpoint.every_steps": 2,
    "validation.every_steps": 4,
    "validation.bleu": "false",
    "validation.best": "loss",
    "model.width": 16,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "decoding.max_ratio": 0.1,
    "decoding.max_extra": 2,
}


@pytest.mark.ranks
@pytest.mark.skipif(not TEXT.is_dir(), reason="the text of Multi30k is not on this machine")
def test_the_multi30k_example_runs_from_text_to_bleu(tmp_path):
    sets = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    script = [sys.executable, str(EXAMPLES / "multi30k" / "run.py")]
    done = subprocess.run(
        [*script, "--seeds", "2", "--text", str(TEXT), *sets],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, signature, mean = done.stdout.splitlines()
    assert re.fullmatch(r"seed 2: BLEU [\d.]+ in \d+ min \d\d s", one)
    assert "case:mixed" in signature
    assert "tok:13a" in signature
    assert mean.startswith("mean of 1: ")
    run = tmp_path / "runs" / "multi30k-2"
    assert read_run(run).last_starts[0].size == 2
    assert tomllib.loads((run / "config.toml").read_text())["seed"] == 2
    assert len((run / "test_2016_flickr.de").read_text().splitlines()) == 1000
