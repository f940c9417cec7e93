"""Runs that start from other weights: what is inherited, frozen, refused, and continued."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from support.tiny import tiny_settings, write_text
from train.test_resume import assert_identical, final_state, link_corpus
from unisono.comm.group import Solo
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError, DataError
from unisono.prepare.build import prepare_corpus
from unisono.records.events import Ended, Started, StepTaken
from unisono.train.job import run_with

STRATEGIES = ["ddp", "all_reduce", "compressed", "powersgd", "diloco"]
SYNC = {"bucket_mb": 0.005, "warmup_steps": 2, "local_steps": 2}


@pytest.fixture(scope="module")
def base(corpus_home, tmp_path_factory):
    """A finished run to start from; treat it as read-only."""
    home = link_corpus(corpus_home, tmp_path_factory.mktemp("base"))
    torch.set_num_threads(1)
    list(run_with(Solo(), tiny_settings(home, "base", train={"max_steps": 6})))
    return home / "base"


@pytest.fixture
def home(corpus_home, tmp_path):
    return link_corpus(corpus_home, tmp_path)


def train(comm, home, run, start, stop=6, **tables):
    """Train to `stop` with this table [start]; return the events."""
    torch.set_num_threads(1)
    tables = {"start": start, "train": {"max_steps": stop}, **tables}
    return list(run_with(comm, tiny_settings(Path(home), run, **tables)))


def train_to(comm, home, run, start, stops, strategy="ddp"):
    for stop in stops:
        train(comm, home, run, start, stop, sync={**SYNC, "strategy": strategy})


def weights_at(run, step):
    return load_file(run / "checkpoints" / f"step-{step:07d}" / "model.safetensors")


def weights_of(bundle):
    return load_file(bundle / "model.safetensors")


def test_a_run_begins_with_the_weights_and_a_fresh_optimizer(base, home):
    # With a rate of almost 0 the weights stay what they were.
    still = {"name": "constant", "peak": 1e-30}
    events = train(Solo(), home, "run", {"from": str(base)}, 1, schedule=still)
    found, wanted = weights_at(home / "run", 1), weights_of(base / "bundle")
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert [event.step for event in events if isinstance(event, StepTaken)] == [1]


def test_what_it_started_from_is_recorded(base, home):
    events = train(Solo(), home, "run", {"from": str(base / "bundle")})
    [started] = [event for event in events if isinstance(event, Started)]
    assert started.start == str(base / "bundle")
    assert len(started.start_sha256) == 64
    assert started.trained == started.parameters


@pytest.mark.parametrize(
    "freeze", [["embeddings"], ["encoder"], ["decoder", "encoder"], ["embeddings", "encoder"]]
)
def test_frozen_parts_stay_and_all_others_move(base, home, freeze):
    events = train(Solo(), home, "run", {"from": str(base), "freeze": freeze})
    before, after = weights_of(base / "bundle"), weights_at(home / "run", 6)
    frozen = {n for n in before if n.split(".")[0].removesuffix("_norm") in freeze}
    assert frozen
    assert {n for n in before if torch.equal(before[n], after[n])} == frozen
    [started] = [event for event in events if isinstance(event, Started)]
    assert started.trained == sum(before[n].numel() for n in before.keys() - frozen)


def test_a_frozen_part_has_no_state_in_the_optimizer(base, home):
    train(Solo(), home, "run", {"from": str(base), "freeze": ["embeddings"]})
    path = home / "run" / "checkpoints" / "step-0000006" / "optimizer.safetensors"
    assert not [name for name in load_file(path) if name.startswith("embeddings")]


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_start_freeze_and_continue_bit_for_bit(ranks, base, home, strategy):
    origin = home / "origin"
    shutil.copytree(base / "bundle", origin)
    start = {"from": str(origin), "freeze": ["embeddings", "encoder"]}
    ranks.run(train_to, str(home), "whole", start, [6], strategy)
    # Weights of diloco agree where a save is due, as after update 4.
    ranks.run(train_to, str(home), "parts", start, [4], strategy)
    shutil.rmtree(origin)  # a run that continues does not look at it again
    ranks.run(train_to, str(home), "parts", start, [6], strategy)
    whole, parts = final_state(home / "whole", 6), final_state(home / "parts", 6)
    assert_identical(whole, parts)
    before, after = weights_of(base / "bundle"), weights_at(home / "whole", 6)
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert still == {n for n in before if not n.startswith("decoder")}


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_one_process_and_four_make_the_same_run(ranks, base, home):
    start = {"from": str(base), "freeze": ["encoder"]}
    plain = {"optimizer": {"name": "sgd"}, "schedule": {"name": "constant", "peak": 0.1}}
    train(Solo(), home, "one", start, 3, **plain)
    ranks.run(train_with, str(home), "four", start, plain)
    one, four = weights_at(home / "one", 3), weights_at(home / "four", 3)
    for name in one:
        torch.testing.assert_close(one[name], four[name], rtol=1e-4, atol=1e-6)


def train_with(comm, home, run, start, tables):
    train(comm, home, run, start, 3, **tables)


def test_a_start_that_moved_is_known_by_its_hash(base, home):
    shutil.copytree(base / "bundle", home / "here")
    train(Solo(), home, "run", {"from": str(home / "here")}, 3)
    (home / "here").rename(home / "there")
    events = train(Solo(), home, "run", {"from": str(home / "there")}, 6)
    assert isinstance(events[-1], Ended)


def test_another_start_is_not_taken_for_the_one_a_run_began_with(base, home):
    train(Solo(), home, "run", {"from": str(base)}, 3)
    train(Solo(), home, "other", {"from": str(base)}, 3)
    with pytest.raises(ConfigError, match="this run started from"):
        train(Solo(), home, "run", {"from": str(home / "other")}, 6)


def test_a_run_that_lost_its_first_weights_goes_on_from_its_checkpoint(base, home):
    train(Solo(), home, "run", {"from": str(base)}, 3)
    shutil.rmtree(home / "run" / "start")
    events = train(Solo(), home, "run", {"from": str(home / "gone")}, 6)
    assert [event.step for event in events if isinstance(event, StepTaken)] == [4, 5, 6]


def test_weights_that_do_not_fit_are_refused_with_the_setting(base, home):
    with pytest.raises(ConfigError, match="width = 16") as caught:
        train(Solo(), home, "run", {"from": str(base)}, model={"width": 32, "inner": 64})
    assert caught.value.where == "[model] width"
    assert "width = 16, inner = 32" in caught.value.fix
    assert not (home / "run").exists()


def test_another_vocabulary_is_refused_with_both_hashes(base, tmp_path):
    home = tmp_path / "other"
    tiny_corpus_with(home, vocabulary=48)
    mine = open_corpus(home / "corpus").tokenizers().fingerprint[:16]
    with pytest.raises(ConfigError, match="another vocabulary") as caught:
        train(Solo(), home, "run", {"from": str(base)}, corpus={"vocabulary": 48})
    assert mine in caught.value.what
    assert caught.value.what.count("sha256") == 2
    assert f"--like {base}" in caught.value.fix


def tiny_corpus_with(home, **corpus):
    for name, pairs in (("train", 200), ("valid", 20), ("test", 20)):
        write_text(home / "text", name, pairs, seed=len(name))
    settings = tiny_settings(home, corpus=corpus)
    list(prepare_corpus(settings.data, settings.corpus))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: shutil.rmtree(path), "there is no bundle here"),
        (lambda path: (path / "model.safetensors").write_bytes(b"x"), "damaged"),
        (lambda path: (path / "pieces.model").unlink(), "damaged"),
        (lambda path: [entry.unlink() for entry in path.iterdir()], "there is no bundle here"),
    ],
)
def test_a_missing_or_damaged_start_is_refused_before_anything_is_written(
    base, home, spoil, words
):
    shutil.copytree(base / "bundle", home / "origin")
    spoil(home / "origin")
    with pytest.raises(DataError, match=words) as caught:
        train(Solo(), home, "run", {"from": str(home / "origin")})
    assert "cannot start from" in caught.value.what
    assert not (home / "run").exists()


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"freeze": ["encoder"]}, "nothing to start from"),
        ({"from": "x", "freeze": ["embeddings", "encoder", "decoder"]}, "nothing is left"),
        ({"from": "x", "freeze": ["encodr"]}, "embeddings, encoder, decoder"),
        ({"from": "x", "old_test": ["test.en"]}, "two files, not 1"),
        ({"form": "x"}, "did you mean `from`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, start, words):
    with pytest.raises(ConfigError) as caught:
        tiny_settings(tmp_path, start=start)
    assert words in str(caught.value)
