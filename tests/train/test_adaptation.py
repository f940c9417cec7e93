"""What was gained and what was forgotten: the same figures on one process and on two."""

from pathlib import Path

import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.bundle.reader import open_bundle
from unisono.comm.group import Solo
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.adaptation import adaptation_words
from unisono.errors import DataError
from unisono.records.events import Adapted
from unisono.records.view import read_run
from unisono.score import score_bleu
from unisono.train.job import run_with


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A home with a run `base`, and an old test set that is the validation set."""
    home = link_corpus(corpus_home, tmp_path_factory.mktemp("adaptation"))
    torch.set_num_threads(1)
    tables = {"train": {"max_steps": 24}, "validation": {"every_steps": 24}}
    list(run_with(Solo(), tiny_settings(home, "base", **tables)))
    return home


def adapt(comm, home, run, rate=0.01, old_test=True):
    torch.set_num_threads(1)
    home = Path(home)
    old = [str(home / "text" / f"valid.{side}") for side in ("en", "de")] if old_test else []
    start = {"from": str(home / "base"), "old_test": old}
    schedule = {"name": "constant", "peak": rate}
    settings = tiny_settings(home, run, start=start, schedule=schedule, train={"max_steps": 4})
    return [event for event in run_with(comm, settings) if isinstance(event, Adapted)]


def lines(path):
    return path.read_text("utf-8").splitlines()


def test_both_sets_are_scored_as_translate_and_score_would(home):
    new, old = adapt(Solo(), home, "scored", rate=0.3)  # a rate that harms
    assert (new.test, old.test) == ("new", "old")
    for event, name in ((new, "test"), (old, "valid")):
        source, target = (lines(home / "text" / f"{name}.{side}") for side in ("en", "de"))
        for run, score in (("base", event.bleu_start), ("scored", event.bleu_run)):
            translated = open_bundle(home / run / "bundle").translator().translate(source)
            assert score_bleu(translated, target).score == pytest.approx(score)
        assert event.low <= event.bleu_run - event.bleu_start <= event.high
    report = diagnose(read_run(home / "scored"), now=0.0)
    assert report.adaptation.verdict in ("outweighed", "no_gain")
    assert report.adaptation.forgotten.chrf_run < report.adaptation.forgotten.chrf_start
    words = " ".join(adaptation_words(report.adaptation))
    assert str(home / "base") in words
    assert f"{old.bleu_run:.2f}" in words


def test_the_old_test_set_of_the_run_is_taken_if_none_is_named(home):
    new, old = adapt(Solo(), home, "unnamed", old_test=False)
    assert (new.bleu_start, new.bleu_run) == (old.bleu_start, old.bleu_run)


def test_an_old_test_set_that_is_missing_is_refused(home):
    settings = tiny_settings(
        home, "never", start={"from": str(home / "base"), "old_test": ["no.en", "no.de"]}
    )
    with pytest.raises(DataError, match=r"no\.en cannot be read"):
        list(run_with(Solo(), settings))
    assert not (home / "never").exists()


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_two_processes_share_the_comparison(ranks, home):
    first, second = ranks.run(adapt, str(home), "two")
    assert [(e.test, e.bleu_start, e.bleu_run) for e in first] == [
        (e.test, e.bleu_start, e.bleu_run) for e in second
    ]
    assert len(first) == 2
