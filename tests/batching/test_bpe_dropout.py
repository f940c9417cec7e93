import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from support.tiny import tiny_settings
from unisono.batching.bpe_dropout import bpe_dropout_for
from unisono.batching.plan import MicroBatch, StepPlan
from unisono.batching.settings import Batching
from unisono.batching.stream import Stream
from unisono.corpus import open_corpus, write_corpus
from unisono.errors import ConfigError
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import END_ID, PADDING_ID, Tokenizers

UPDATES = 12  # more than an epoch has


@pytest.fixture(scope="module")
def corpus(corpus_home):
    return open_corpus(Path(corpus_home) / "corpus")


def batching(**changes):
    return Batching(
        **{"tokens_per_update": 400, "tokens_per_micro_batch": 100, "bpe_dropout": 0.3}
        | changes
    )


def stream(corpus, rank=0, size=1, max_pieces=40, seed=5, **changes):
    settings = batching(**changes)
    bpe_dropout = bpe_dropout_for(
        corpus.tokenizers(), settings, seed=seed, max_pieces=max_pieces
    )
    return Stream(corpus.split("train"), settings, seed, rank, size, bpe_dropout=bpe_dropout)


def works(stream, epoch=1, position=0, count=UPDATES):
    going = stream.from_position(epoch, position)
    taken = list(itertools.islice(going, count))
    going.close()
    return taken


def sentences(tensor):
    return [[i for i in row if i not in (PADDING_ID, END_ID)] for row in tensor.tolist()]


def counts(step):
    return step.source_tokens, step.target_tokens, step.positions, step.sentences


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_tokens_of_an_update_are_those_it_really_has(corpus, size):
    shares = [works(stream(corpus, rank, size)) for rank in range(size)]
    for update in zip(*shares, strict=True):
        batches = [batch for work in update for batch in work.batches]
        tokens = [
            sum(int((side(batch) != PADDING_ID).sum()) for batch in batches)
            for side in (lambda b: b.source, lambda b: b.target_out)
        ]
        positions = sum(b.source.numel() + b.target_out.numel() for b in batches)
        if len(update[0].plan.micro_batches) < size:
            continue  # somebody's share is a batch of nothing
        for work in update:  # known to all of them
            assert [work.plan.source_tokens, work.plan.target_tokens] == tokens
            assert work.plan.positions == positions


def test_the_text_is_the_same_in_other_and_more_pieces(corpus):
    pieces, split = corpus.tokenizers().target, corpus.split("train")
    longer = 0
    for work in works(stream(corpus)):
        for micro, batch in zip(work.plan.micro_batches, work.batches, strict=True):
            source, target = split.pairs(micro.indices)
            assert pieces.decode(sentences(batch.source)) == pieces.decode(source)
            assert pieces.decode(sentences(batch.target_out)) == pieces.decode(target)
            longer += int((batch.target_out != PADDING_ID).sum()) - sum(map(len, target))
    assert longer > 500


def by_number(works):
    return [
        {batch.number: (batch.source, batch.target_in, batch.target_out) for batch in share}
        for share in works
    ]


@pytest.mark.parametrize("size", [2, 3])
def test_any_number_of_processes_sees_the_same_pieces(corpus, size):
    alone = works(stream(corpus))
    shares = [works(stream(corpus, rank, size)) for rank in range(size)]
    for whole, *parts in zip(alone, *shares, strict=True):
        [expected] = by_number([whole.batches])
        for work in parts:
            assert counts(work.plan) == counts(whole.plan)
            for batch in work.batches:
                for ours, theirs in zip(
                    (batch.source, batch.target_in, batch.target_out),
                    expected[batch.number],
                    strict=True,
                ):
                    assert torch.equal(ours, theirs)


def test_updates_are_the_same_wherever_one_begins(corpus):
    whole = works(stream(corpus))
    for start in (1, 5, 10):
        first = whole[start]
        rest = works(stream(corpus), first.plan.epoch, first.position, UPDATES - start)
        for one, other in zip(whole[start:], rest, strict=True):
            assert counts(one.plan) == counts(other.plan)
            for a, b in zip(one.batches, other.batches, strict=True):
                assert torch.equal(a.source, b.source)
                assert torch.equal(a.target_out, b.target_out)


def resegmented(corpus, indices, *, epoch=1, position=0, seed=5, **changes):
    step = StepPlan(epoch, (MicroBatch(0, np.array(indices)),), 0, 0, 0, len(indices))
    made = stream(corpus, seed=seed, **changes)
    [new] = made.bpe_dropout(made.split, [step], position)
    return [[row.tolist() for row in side] for side in new.pairs(step.micro_batches[0])]


def test_a_pair_is_spelled_otherwise_in_another_epoch_update_and_run(corpus):
    pairs = range(12)
    first = resegmented(corpus, pairs)
    assert resegmented(corpus, pairs) == first
    assert resegmented(corpus, pairs, epoch=2) != first
    assert resegmented(corpus, pairs, position=1) != first
    assert resegmented(corpus, pairs, seed=6) != first


def test_other_sentences_are_changed_in_another_run(corpus):
    usual = [row.tolist() for row in corpus.split("train").pairs(range(50))[0]]
    changed = []
    for seed in (5, 6):
        found, _ = resegmented(corpus, range(50), bpe_dropout=0.05, seed=seed)
        changed.append([row != before for row, before in zip(found, usual, strict=True)])
    assert changed[0] != changed[1]


def test_a_pair_is_spelled_the_same_in_any_micro_batch(corpus):
    both = resegmented(corpus, [3, 9])
    assert [side[1:] for side in both] == resegmented(corpus, [9])
    assert [side[::-1] for side in both] == resegmented(corpus, [9, 3])


@pytest.mark.parametrize(("side", "changed"), [("source", (1, 0)), ("target", (0, 1))])
def test_one_side_alone_can_be_spelled_anew(corpus, side, changed):
    found = resegmented(corpus, range(12), bpe_dropout_side=side)
    stored = corpus.split("train").pairs(range(12))
    for rows, usual, is_changed in zip(found, stored, changed, strict=True):
        assert (rows != [row.tolist() for row in usual]) == bool(is_changed)


def test_no_sentence_outgrows_the_longest_that_a_corpus_may_have(corpus):
    stored = corpus.split("train").pairs(range(12))
    for limit in (4, 8, 16):
        found = resegmented(corpus, range(12), bpe_dropout=0.9, max_pieces=limit)
        for rows, usual in zip(found, stored, strict=True):
            for row, before in zip(rows, usual, strict=True):
                assert len(row) <= limit or row == before.tolist()
    assert max(len(row) for row in resegmented(corpus, range(12), bpe_dropout=0.9)[0]) > 16


def test_no_micro_batch_outgrows_twice_its_budget(corpus):
    grown = []
    for work in works(stream(corpus, bpe_dropout=0.9, max_pieces=10_000)):
        for batch in work.batches:
            grown += [batch.source.numel(), batch.target_out.numel()]
    assert 150 < max(grown) <= 200


def test_nothing_is_made_where_nothing_is_left_out(corpus):
    settings = batching(bpe_dropout=0.0)
    assert bpe_dropout_for(corpus.tokenizers(), settings, seed=1, max_pieces=9) is None


def test_languages_share_what_they_remember_if_they_share_their_pieces(corpus, tmp_path):
    shared = stream(corpus).bpe_dropout
    assert shared.source is shared.target
    lines = ["one two three", "eins zwei drei"]
    own = [learn_pieces([line] * 9, size=40, character_coverage=1.0) for line in lines]
    pairs = {"train": [tuple(lines)] * 40, "valid": [tuple(lines)]}
    write_corpus(tmp_path / "corpus", Tokenizers(*own), pairs)
    separate = open_corpus(tmp_path / "corpus")
    made = stream(separate).bpe_dropout
    assert made.source is not made.target
    for side, pieces in zip(resegmented(separate, range(40)), own, strict=True):
        assert len({tuple(row) for row in side}) > 3
        assert len(set(pieces.decode(side))) == 1


def test_unigram_pieces_are_refused_before_anything_is_made(tmp_path):
    dropout = {"batching": {"bpe_dropout": 0.1}}
    with pytest.raises(ConfigError, match="unigram"):
        tiny_settings(tmp_path, corpus={"pieces": "unigram"}, **dropout)
    given = tiny_settings(
        tmp_path, corpus={"pieces": "unigram", "pieces_model": "my.model"}, **dropout
    )
    assert given.batching.bpe_dropout == 0.1  # nobody knows yet what that model is
