"""Tagged sources, a temperature and BPE-dropout at once: the promises about updates hold."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from support.tiny import ENGLISH, tiny_settings, write_text
from train.test_resume import assert_identical, final_state
from train.test_resume_features import LAST, train
from train.test_world_size import assert_same
from unisono.batching.bpe_dropout import bpe_dropout_for
from unisono.batching.stream import Stream
from unisono.bundle.reader import open_bundle
from unisono.comm.group import Solo
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.prepare.build import prepare_corpus
from unisono.records.events import Started, StepTaken, Validated
from unisono.schedules import Constant
from unisono.text.sentence_pieces import learn_pieces
from unisono.train.job import run_with
from unisono.train.step import Parts, StepRequests, take_step
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translator

SMALL = {"width": 16, "heads": 2, "inner": 32, "encoder_layers": 1, "decoder_layers": 1}
MIXED = {"temperature": 3.0, "bpe_dropout": 0.3}


def tables(home):
    text = Path(home) / "text"

    def pair(name, **more):
        return {"source": str(text / f"{name}.en"), "target": str(text / f"{name}.de"), **more}

    sources = [pair("train"), pair("more", weight=0.7), pair("back", tag="<BT>")]
    data = {"train": sources, "valid": pair("valid"), "test": pair("test")}
    return {"data": data, "batching": MIXED}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("mixed")
    for seed, (name, size) in enumerate(
        {"train": 200, "more": 90, "back": 40, "valid": 20, "test": 20}.items()
    ):
        write_text(home / "text", name, size, seed)
    settings = tiny_settings(home, **tables(home))
    list(prepare_corpus(settings.data, settings.corpus))
    return home


def weights_after(comm, home, steps=3):
    """Take some steps on this process's share, by SGD, and return all weights."""
    torch.set_num_threads(1)
    corpus, world = open_corpus(Path(home) / "corpus"), comm.world
    settings = tiny_settings(Path(home), **tables(home))
    torch.manual_seed(0)
    model = build_model(TransformerSettings(**SMALL, dropout=0.3), corpus.manifest.vocabulary)
    parts = Parts(
        replica=AllReduce().attach(model.train(), comm),
        comm=comm,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        schedule=Constant(peak=0.5),
        seed=5,
        label_smoothing=0.1,
    )
    bpe_dropout = bpe_dropout_for(
        corpus.tokenizers(), settings.batching, seed=5, max_pieces=settings.corpus.max_pieces
    )
    stream = Stream(
        corpus.split("train"),
        settings.batching,
        5,
        world.rank,
        world.size,
        settings.batching.temperature,
        bpe_dropout,
    )
    works = stream.from_position(1, 0)
    for step in range(1, steps + 1):
        result = take_step(parts, next(works), step, StepRequests())
    works.close()
    weights = {name: w.detach().numpy() for name, w in parts.replica.module.named_parameters()}
    return {"loss": np.array(result.loss), "norm": np.array(result.gradient_norm), **weights}


@pytest.mark.ranks
def test_several_processes_make_the_update_one_would(ranks, home):
    alone = weights_after(Solo(), home)
    for theirs in ranks.run(weights_after, str(home)):
        assert_same(alone, theirs)


def test_killed_and_continued_is_never_stopped(home):
    train(Solo(), home, "whole", tables(home))
    train(Solo(), home, "parts", tables(home), [3, 4])
    assert_identical(final_state(home / "whole", LAST), final_state(home / "parts", LAST))


@pytest.mark.ranks
def test_killed_and_continued_on_several_ranks(ranks, home):
    name = f"of-{ranks.size}"
    ranks.run(train, str(home), f"{name}-whole", tables(home))
    ranks.run(train, str(home), f"{name}-parts", tables(home), [3, 4])
    whole, parts = (final_state(home / f"{name}-{run}", LAST) for run in ("whole", "parts"))
    assert_identical(whole, parts)


@pytest.fixture(scope="module")
def told(home):
    """What a whole run tells."""
    settings = tiny_settings(home, "told", train={"max_steps": 6}, **tables(home))
    return list(run_with(Solo(), settings))


def steps_of(events):
    return [event for event in events if isinstance(event, StepTaken)]


def test_only_training_is_spelled_anew_and_the_loss_is_per_real_token(home, told):
    valid = open_corpus(home / "corpus").split("valid")
    scored = {event.target_tokens for event in told if isinstance(event, Validated)}
    assert scored == {int((valid.target_lengths + 1).sum())}
    usually = tables(home) | {"batching": {"temperature": 3.0}}
    plain = tiny_settings(home, "plain", train={"max_steps": 6}, **usually)
    steps, usual = steps_of(told), steps_of(run_with(Solo(), plain))
    assert [step.sentences for step in steps] == [step.sentences for step in usual]
    for step, before in zip(steps, usual, strict=True):
        assert step.target_tokens > 1.1 * before.target_tokens
    # An untrained model guesses, in few pieces or in many.
    assert steps[0].loss == pytest.approx(usual[0].loss, rel=0.1)


def test_a_run_tells_what_its_epochs_are_mixed_of(home, told):
    [sources] = [event.sources for event in told if isinstance(event, Started)]
    assert [(s.name, s.tag) for s in sources] == [
        ("train.en", ""),
        ("more.en", ""),
        ("back.en", "<BT>"),
    ]
    blocks = open_corpus(home / "corpus").split("train").blocks
    roots = np.array([block.weight * block.pairs ** (1 / 3) for block in blocks])
    np.testing.assert_allclose([s.share for s in sources], roots / roots.sum())
    taken = [s.pairs * s.times for s in sources]
    assert sum(taken) == pytest.approx(sum(b.pairs * b.weight for b in blocks))


def test_a_bundle_knows_the_tags(home, told):
    bundle = open_bundle(home / "told" / "bundle")
    assert bundle.description.tags == ["<BT>"]
    assert (
        bundle.tokenizers.source.tags == open_corpus(home / "corpus").tokenizers().source.tags
    )
    assert bundle.translator().translate(["<BT>", ""]) == ["", ""]


def test_a_tag_in_front_of_a_line_reaches_the_model_with_every_part_of_it(home):
    pieces = open_corpus(home / "corpus").tokenizers()
    torch.manual_seed(2)
    model = build_model(
        TransformerSettings(**SMALL, tied_embeddings=False), pieces.source.size
    ).eval()
    word = next(w for w in ENGLISH if len(pieces.source.encode([w])[0]) == 1)
    lines = [f"<BT> {word} {word} {word}", f"{word} <BT> {word}", f"{word} {word} {word}"]
    translator = Translator([model], pieces, Decoding(beam=1, max_ratio=1, max_extra=4))
    before = translator.translate(lines)
    with torch.no_grad():
        model.embeddings["source"][pieces.source.tags["<BT>"]] *= -40
    after = translator.translate(lines)
    assert after[0] != before[0]  # only here it is a tag
    assert after[1:] == before[1:]
    short = dataclasses.replace(translator, max_pieces=4)
    [long] = short.translations([f"<BT>{f' {word}' * 6}"])
    assert long.parts == 2
    assert long.text == f"{after[0]} {after[0]}"


def test_a_model_of_pieces_that_does_not_merge_is_refused_before_a_run_begins(home, tmp_path):
    (tmp_path / "text").symlink_to(home / "text")
    lines = (home / "text" / "train.en").read_text("utf-8").splitlines()
    lines += (home / "text" / "train.de").read_text("utf-8").splitlines()
    model = learn_pieces(lines, size=60, character_coverage=1.0, pieces="unigram")
    (tmp_path / "my.model").write_bytes(model.model)
    given = {"corpus": {"pieces_model": str(tmp_path / "my.model")}}
    settings = tiny_settings(tmp_path, batching={"bpe_dropout": 0.1}, **given)
    list(prepare_corpus(settings.data, settings.corpus))
    with pytest.raises(ConfigError, match="are not byte-pair merges"):
        list(run_with(Solo(), settings))
    assert not (tmp_path / "run").exists()
