"""Several models as one: against themselves and against a naive search."""

import math

import pytest
import torch

from models.sample import SETTINGS, padded, words
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID
from unisono.translate import ensemble
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

VOCABULARY = 21
OTHER = TransformerSettings(
    width=24, heads=3, inner=32, encoder_layers=1, decoder_layers=3, norm="post"
)


def model_of(settings=SETTINGS, seed=0):
    torch.manual_seed(seed)
    model = build_model(settings, VOCABULARY).eval()
    with torch.no_grad():  # sharper than a fresh model, so that opinions differ
        for matrix in model.embeddings.values():
            matrix.mul_(2.5)
    return model


def batch_of(*lengths):
    """Return rows of source words with their ends, padded to the longest."""
    rows = [
        torch.cat([words(1, length, seed=length), torch.tensor([[END_ID]])], dim=1)
        for length in lengths
    ]
    return torch.cat([padded(row, max(lengths) + 1 - row.size(1)) for row in rows])


def naive(models, source, decoding):
    """Search for one sentence, prefix by prefix, all words anew each time."""
    limit = int(decoding.max_ratio * (source.size(1) - 1)) + decoding.max_extra
    beams, ended = [(0.0, ())], []
    for length in range(limit + 1):
        candidates = []
        for score, ids in beams:
            target = torch.tensor([[BEGIN_ID, *ids]])
            chances = [model(source, target)[0, -1].double().softmax(0) for model in models]
            logs = (sum(chances) / len(models)).log().tolist()
            for word, log in enumerate(logs):
                if word not in (PADDING_ID, BEGIN_ID) and (length < limit or word == END_ID):
                    candidates.append((score + log, (*ids, word)))
        going_on = sorted((c for c in candidates if c[1][-1] != END_ID), reverse=True)
        beams = going_on[: decoding.beam]
        ends = [c for c in candidates if c[1][-1] == END_ID]
        for score, ids in sorted([*beams, *ends], reverse=True)[: decoding.beam]:
            if ids[-1] == END_ID:
                penalty = ((5 + length) / 6) ** decoding.length_penalty
                ended.append((score / penalty, ids[:-1]))
        hope = beams[0][0] / ((5 + limit) / 6) ** decoding.length_penalty if beams else 0
        if len(ended) >= decoding.beam or any(score >= hope for score, _ in ended):
            break
    return max(ended)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("copies", [2, 3])
def test_a_model_and_itself_find_what_it_finds_alone(beam, copies):
    model, source, decoding = model_of(), batch_of(7, 5, 2), Decoding(beam=beam, max_extra=4)
    alone = search([model], source, decoding)
    together = search([model] * copies, source, decoding)
    for one, other in zip(alone, together, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        scores = [h.score for h in one]
        assert [h.score for h in other] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [1, 3, 5])
@torch.no_grad()
def test_two_models_of_different_sizes_find_what_a_naive_search_finds(beam, seed):
    models = [model_of(seed=seed), model_of(OTHER, seed=seed + 10)]
    source, decoding = batch_of(6, 4, 3), Decoding(beam=beam, max_ratio=1.0, max_extra=2)
    found = search(models, source, decoding)
    for row, (best, *_) in zip(source, found, strict=True):
        words_of_row = row[row != PADDING_ID][None]
        score, ids = naive(models, words_of_row, decoding)
        assert best.ids == ids
        assert best.score == pytest.approx(score, abs=1e-4)


def test_the_opinions_are_different_so_that_the_mean_matters():
    models = [model_of(seed=0), model_of(OTHER, seed=10)]
    source, decoding = batch_of(6, 4, 3), Decoding(beam=5, max_ratio=1.0, max_extra=2)
    found = [search(some, source, decoding) for some in (models, models[:1], models[1:])]
    assert len({tuple(row[0].ids for row in rows) for rows in found}) == 3


def test_chances_too_small_for_a_float_do_not_end_a_search():
    models = [model_of(seed=seed) for seed in (1, 2)]
    with torch.no_grad():  # the end has e^-300 or so
        for model in models:
            model.decoder_norm.bias.copy_(-60 * model.embeddings["shared"][END_ID])
    decoding = Decoding(beam=2, max_ratio=1.0, max_extra=0)
    for hypotheses in search(models, batch_of(3), decoding):
        assert all(-math.inf < hypothesis.score < -100 for hypothesis in hypotheses)


@pytest.mark.parametrize("at_once", [1, 5 * VOCABULARY, 7 * VOCABULARY])
def test_how_many_logits_are_made_at_once_changes_nothing(at_once, monkeypatch):
    models = [model_of(seed=0), model_of(OTHER, seed=10)]
    source, decoding = batch_of(6, 4, 3), Decoding(beam=4, max_extra=2)
    expected = search(models, source, decoding)
    monkeypatch.setattr(ensemble, "LOGITS_AT_ONCE", at_once)
    for one, other in zip(search(models, source, decoding), expected, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        scores = [h.score for h in other]
        assert [h.score for h in one] == pytest.approx(scores, abs=1e-5)
