"""Search against brute force, against step by step, and in other company."""

from itertools import product

import pytest
import torch

from models.sample import ended, padded, small_model, tiny_model, words
from unisono.text.tokenizer import BEGIN_ID, END_ID
from unisono.translate.beam import search
from unisono.translate.settings import Decoding


def scores_of(model, source, rows, length_penalty):
    """Return the score of each translation; all of them have the same length."""
    target_in = torch.tensor([[BEGIN_ID, *ids] for ids in rows])
    target_out = torch.tensor([[*ids, END_ID] for ids in rows])
    logs = model(source.expand(len(rows), -1), target_in).log_softmax(-1)
    totals = logs.gather(2, target_out[:, :, None]).sum((1, 2))
    return (totals / ((5 + len(rows[0])) / 6) ** length_penalty).tolist()


def brute_force(model, source, limit, length_penalty):
    """Return the best of all translations of at most `limit` words (unknown, 4 and 5)."""
    best = []
    for length in range(limit + 1):
        rows = list(product((1, 4, 5), repeat=length))
        best += zip(scores_of(model, source, rows, length_penalty), rows, strict=True)
    return max(best)


def step_by_step(model, source, limit):
    ids = []
    while len(ids) < limit:
        logits = model(source, torch.tensor([[BEGIN_ID, *ids]]))[0, -1]
        logits[[0, BEGIN_ID]] = -torch.inf
        word = int(logits.argmax())
        if word == END_ID:
            break
        ids.append(word)
    return tuple(ids)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.5])
@torch.no_grad()
def test_a_beam_wide_enough_for_everything_finds_the_best_of_all(seed, length_penalty):
    model, source = tiny_model(seed=seed), torch.tensor([[4, 5, END_ID]])
    decoding = Decoding(beam=400, length_penalty=length_penalty, max_ratio=1.0, max_extra=2)
    best = search([model], source, decoding)[0][0]
    score, ids = brute_force(model, source, limit=4, length_penalty=length_penalty)
    assert best.ids == ids
    assert best.score == pytest.approx(score, abs=1e-4)


@torch.no_grad()
def test_scores_are_what_the_settings_say():
    model, source = small_model(), ended(words(1, 5))
    hypotheses = search([model], source, Decoding(beam=4, length_penalty=0.8, max_extra=3))[0]
    assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)
    for hypothesis in hypotheses:
        expected = scores_of(model, source, [hypothesis.ids], 0.8)
        assert [hypothesis.score] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
@torch.no_grad()
def test_a_beam_of_one_takes_the_best_word_each_time(seed):
    model, source = tiny_model(vocabulary=21, seed=seed), ended(words(3, 5, seed=seed))
    found = search([model], source, Decoding(beam=1, max_ratio=1.0, max_extra=4))
    for row, hypotheses in zip(source, found, strict=True):
        assert [h.ids for h in hypotheses] == [step_by_step(model, row[None], limit=9)]


@pytest.mark.parametrize("seed", range(4))
def test_a_prefix_is_kept_and_scored_as_the_search_itself_would(seed):
    model, source = tiny_model(vocabulary=21, seed=seed), ended(words(3, 5, seed=seed))
    decoding = Decoding(beam=1, max_ratio=1.0, max_extra=4)
    free = [row[0] for row in search([model], source, decoding)]
    prefixes = [list(best.ids[:place]) for place, best in enumerate(free)]
    for best, (again, *_) in zip(
        free, search([model], source, decoding, prefixes), strict=True
    ):
        assert again.ids[: len(best.ids)] == best.ids
    other = [[4, 5, 6], [], [7]]
    for beam in (1, 3):
        found = search([model], source, Decoding(beam=beam, length_penalty=0.5), other)
        for row, prefix, (best, *_) in zip(source, other, found, strict=True):
            assert best.ids[: len(prefix)] == tuple(prefix)
            with torch.no_grad():
                [score] = scores_of(model, row[None], [best.ids], 0.5)
            assert best.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_the_best_few_of_a_beam_wide_enough_for_everything_are_the_best_of_all(seed):
    model, source = tiny_model(seed=seed), torch.tensor([[4, 5, END_ID]])
    decoding = Decoding(beam=400, length_penalty=0.6, max_ratio=1.0, max_extra=2)
    every = []
    for length in range(5):
        rows = list(product((1, 4, 5), repeat=length))
        every += zip(scores_of(model, source, rows, 0.6), rows, strict=True)
    expected = [ids for _, ids in sorted(every, reverse=True)[:9]]
    assert [h.ids for h in search([model], source, decoding, best=9)[0][:9]] == expected


@pytest.mark.parametrize("beam", [1, 4])
def test_company_and_padding_change_nothing(beam):
    model, decoding = tiny_model(vocabulary=21), Decoding(beam=beam, max_extra=5)
    rows = [ended(words(1, length, seed=length)) for length in (9, 7, 5, 2, 1)]
    alone = [search([model], row, decoding)[0] for row in rows]
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 4]):
        batch = torch.cat([padded(rows[i], 12 - rows[i].size(1)) for i in order])
        for place, found in zip(order, search([model], batch, decoding), strict=True):
            assert [h.ids for h in found] == [h.ids for h in alone[place]]
            scores = [h.score for h in alone[place]]
            assert [h.score for h in found] == pytest.approx(scores, abs=1e-4)


def test_nobody_translates_longer_than_allowed_and_everybody_something():
    model = small_model()
    with torch.no_grad():  # nothing ever ends by itself
        model.decoder_norm.bias.copy_(-5 * model.embeddings["shared"][END_ID])
    source = torch.cat([padded(ended(words(1, 3)), 3), ended(words(1, 6))])
    found = search([model], source, Decoding(beam=3, max_ratio=1.5, max_extra=2))
    assert {len(h.ids) for h in found[0]} == {6}
    assert {len(h.ids) for h in found[1]} == {11}
    assert all(-1000 < h.score < 0 for row in found for h in row)


def test_padding_begin_and_end_are_never_words_of_a_translation():
    model = small_model()
    with torch.no_grad():
        model.decoder_norm.bias.copy_(9 * model.embeddings["shared"][[0, BEGIN_ID]].sum(0))
    for hypotheses in search([model], ended(words(4, 6)), Decoding(beam=5)):
        for hypothesis in hypotheses:
            assert not {0, BEGIN_ID, END_ID} & set(hypothesis.ids)


def test_a_wider_beam_finds_nothing_worse_here():
    model, source = tiny_model(vocabulary=21, seed=3), ended(words(6, 5))
    scores = [
        [row[0].score for row in search([model], source, Decoding(beam=beam, max_extra=4))]
        for beam in (1, 30)
    ]
    assert all(wide >= narrow - 1e-4 for narrow, wide in zip(*scores, strict=True))


def test_sentences_that_are_done_leave_the_batch():
    model, rows = small_model(), []
    read = model.read

    def counting(target, cache):
        rows.append(target.size(0))
        return read(target, cache)

    model.read = counting
    source = torch.cat([padded(ended(words(1, 1)), 8), ended(words(1, 9))])
    with torch.no_grad():
        model.decoder_norm.bias.copy_(-5 * model.embeddings["shared"][END_ID])
    search([model], source, Decoding(beam=2, max_ratio=1.0, max_extra=0))
    assert rows == [2, 4, 2, 2, 2, 2, 2, 2, 2, 2]


def test_no_sentences_have_no_translations():
    assert search([small_model()], torch.zeros(0, 3, dtype=torch.long), Decoding()) == []


def test_a_model_that_lost_its_numbers_finds_an_empty_translation():
    model = small_model()
    with torch.no_grad():
        model.embeddings["shared"].fill_(torch.nan)
    found = search([model], ended(words(2, 3)), Decoding(beam=2, max_extra=1))
    assert [[hypothesis.ids for hypothesis in row] for row in found] == [[()], [()]]
