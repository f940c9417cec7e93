"""Validation is shared out evenly, gives the same on any number of processes, shows samples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.comm.group import Solo
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.corpus.reader import open_corpus
from unisono.records.events import RolledBack, Validated, to_line
from unisono.records.layout import RunDirectory
from unisono.records.sentence_losses import repeats_itself
from unisono.records.view import read_run
from unisono.text.tokenizer import END_ID
from unisono.train.evaluation import (
    ROWS_OF_A_STEP,
    EvaluationSplit,
    sentence_losses,
    spread_evenly,
)
from unisono.train.job import build_session, run_with
from unisono.train.process_setup import Signals
from unisono.translate.settings import Decoding


@pytest.fixture
def examination(corpus_home):
    corpus = open_corpus(corpus_home / "corpus")
    tokenizer = corpus.tokenizers().target
    return EvaluationSplit(corpus.split("train"), tokenizer, 150, Decoding())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 1000])
def test_every_sentence_is_in_exactly_one_share(examination, size):
    shares = [examination.share(rank, size) for rank in range(size)]
    found = [index for share in shares for batch in share for index in batch.tolist()]
    assert sorted(found) == list(range(len(examination.split)))


def test_batches_do_not_depend_on_the_number_of_processes(examination):
    alone = {tuple(batch.tolist()) for batch in examination.batches()}
    shares = [examination.share(rank, 3) for rank in range(3)]
    assert {tuple(batch.tolist()) for share in shares for batch in share} == alone


@pytest.mark.parametrize("size", [2, 3, 5])
def test_no_process_has_more_work_than_another_by_more_than_a_batch(examination, size):
    split = examination.split
    longer = np.maximum(split.source_lengths, split.target_lengths) + 1

    def work(batch):
        return int(longer[batch].max()) * (len(batch) + ROWS_OF_A_STEP)

    loads = [sum(map(work, examination.share(rank, size))) for rank in range(size)]
    assert max(loads) - min(loads) <= min(work(batch) for batch in examination.batches())


def train(comm, home, run, bleu, samples=4, peak=0.05):
    torch.set_num_threads(1)
    settings = tiny_settings(
        Path(home),
        run,
        schedule={"name": "constant", "peak": peak},
        train={"max_steps": 24},
        validation={"every_steps": 12, "bleu": bleu, "samples": samples},
    )
    events = list(run_with(comm, settings))
    return [event for event in events if isinstance(event, Validated)]


def test_there_are_samples_at_every_validation_with_bleu_or_without(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    with_bleu, without = (train(Solo(), home, str(bleu), bleu) for bleu in (True, False))
    sources = (home / "text" / "valid.en").read_text().splitlines()
    for one, other in zip(with_bleu, without, strict=True):
        assert one.samples == other.samples
        assert [sample.source for sample in one.samples] == sources[:4]
        assert (one.bleu >= 0, other.bleu) == (True, -1.0)
    assert with_bleu[0].samples != with_bleu[1].samples
    view = read_run(home / "False")
    assert view.samples == {event.step: event.samples for event in without}
    file = RunDirectory(home / "False").sample(24).read_text().splitlines()
    assert file[0].split("\t")[2] == without[1].samples[0].translation


def test_no_samples_are_made_if_none_are_wanted(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    assert [v.samples for v in train(Solo(), home, "run", False, samples=0)] == [(), ()]
    assert not (home / "run" / "samples").exists()


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_the_leading_process_tells_what_all_have_translated(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    # Weights that hardly move stay the same for one process and for two, up to their last bits.
    alone = train(Solo(), home, "alone", False, 11, 1e-6)
    leader, *others = ranks.run(train, str(home), "many", False, 11, 1e-6)
    assert [v.samples for v in leader] == [v.samples for v in alone]
    assert len({sample.translation for sample in leader[1].samples}) > 5
    assert all(v.samples == () for other in others for v in other)


def test_samples_of_weights_that_were_given_up_are_not_shown(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    train(Solo(), home, "run", False)
    back = RolledBack(time=0.0, step=24, to_step=15, reason="", rate_factor=0.5, number=1)
    with RunDirectory(home / "run").events(0).open("ab") as file:
        file.write(to_line(back) + b"\n")
    assert list(read_run(home / "run").samples) == [12]


@pytest.mark.parametrize(("pairs", "wanted"), [(10, 3), (7, 7), (3, 500), (1_000_003, 500)])
def test_a_sample_is_spread_evenly_and_holds_no_pair_twice(pairs, wanted):
    chosen = spread_evenly(pairs, wanted)
    assert len(set(chosen.tolist())) == min(pairs, wanted)
    distances = np.diff([*chosen, pairs])
    assert distances.max() - distances.min() <= 1


def trained_model(settings, corpus):
    session, model = build_session(settings, corpus, Solo(), Signals(), AllReduce())
    session.checkpoint_sync.restore()
    return model.eval()


def test_the_losses_of_all_sentences_are_kept_and_the_sample_is_clean(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    settings = tiny_settings(
        home,
        "run",
        train={"max_steps": 24, "label_smoothing": 0.2},
        model={"dropout": 0.5},
        validation={"every_steps": 12, "bleu": False},
    )
    told = [e for e in run_with(Solo(), settings) if isinstance(e, Validated)]
    view, corpus = read_run(home / "run"), open_corpus(home / "corpus")
    kept = view.sentence_losses
    assert list(kept.at_step) == [event.step for event in told] == [12, 24]
    valid = EvaluationSplit(corpus.split("valid"), corpus.tokenizers().target, 150, Decoding())
    assert kept.tokens.tolist() == valid.target_tokens.tolist()
    model = trained_model(settings, corpus)
    again = sentence_losses(model, valid, Solo())
    np.testing.assert_allclose(kept.at_step[24], again, rtol=1e-5)
    train_split = corpus.split("train")
    one_by_one = EvaluationSplit(train_split, valid.tokenizer, 1, Decoding())
    assert len(train_split) <= 500, "then the sample is all of it"
    expected = sum(sentence_losses(model, one_by_one, Solo()))
    tokens = int(train_split.target_lengths.sum()) + len(train_split)
    assert told[-1].clean_training_loss == pytest.approx(expected / tokens, rel=1e-5)


def test_some_pairs_cost_what_they_cost_among_all(examination, corpus_home, tmp_path):
    settings = tiny_settings(link_corpus(corpus_home, tmp_path), "run")
    model = trained_model(settings, open_corpus(corpus_home / "corpus"))
    chosen = np.array([40, 3, 17])
    few = replace(examination, pairs=chosen)
    every = sentence_losses(model, examination, Solo())
    assert sentence_losses(model, few, Solo()) == pytest.approx([every[n] for n in chosen])
    assert few.target_tokens.tolist() == examination.target_tokens[chosen].tolist()


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_all_processes_know_the_same_losses(ranks, corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    # A low rate, so that rounding does not grow by much in 24 updates of Adam.
    alone = train(Solo(), home, "alone", False, 4, 0.005)
    many = ranks.run(train, str(home), "many", False, 4, 0.005)
    for told in many:
        for one, other in zip(told, alone, strict=True):
            assert one.clean_training_loss == pytest.approx(other.clean_training_loss, rel=1e-4)
    assert len({event[-1].clean_training_loss for event in many}) == 1
    losses = [read_run(home / run).sentence_losses.at_step[24] for run in ("alone", "many")]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_a_model_that_says_nothing_is_known_to(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    settings, corpus = tiny_settings(home, "run"), open_corpus(home / "corpus")
    session, model = build_session(settings, corpus, Solo(), Signals(), AllReduce())
    with torch.no_grad():  # whatever is read, the next word is the end
        model.decoder_norm.weight.zero_()
        model.decoder_norm.bias.fill_(1.0)
        for name, matrix in model.named_parameters():
            if name.startswith("embeddings."):
                matrix[END_ID] = 10.0
    tested, _ = session.evaluator.score_test(1)
    assert (tested.empty, tested.sentences) == (20, 20)


def test_repetitions_are_counted_over_all_translations(corpus_home, tmp_path):
    home = link_corpus(corpus_home, tmp_path)
    settings = tiny_settings(home, "run", validation={"bleu": True, "samples": 1})
    corpus = open_corpus(home / "corpus")
    session, model = build_session(settings, corpus, Solo(), Signals(), AllReduce())
    pieces = range(END_ID + 1, corpus.manifest.vocabulary)
    decoded = corpus.tokenizers().target.decode([[piece] * 4 for piece in pieces])
    word = next(p for p, text in zip(pieces, decoded, strict=True) if len(text.split()) == 4)
    with torch.no_grad():  # whatever is read, the next word is that one
        model.decoder_norm.weight.zero_()
        model.decoder_norm.bias.fill_(1.0)
        for name, matrix in model.named_parameters():
            if name.startswith("embeddings."):
                matrix[word] = 10.0
    (home / "run").mkdir()
    scores = session.evaluator.validate(1)
    told = session.evaluator.event(scores, 1, best=False)
    references = corpus.split("valid").target_text()
    others = [text for text in references if not repeats_itself(text)]
    assert (told.repeating, told.sentences, len(told.samples)) == (len(others), 20, 1)
