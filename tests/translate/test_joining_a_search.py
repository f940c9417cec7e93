"""Sentences that join a search under way find what they find alone."""

import random

import pytest
import torch

from models.sample import ended, padded, small_model, tiny_model, words
from unisono.text.tokenizer import END_ID
from unisono.translate.beam import BeamSearch, search
from unisono.translate.settings import Decoding

LENGTHS = (9, 2, 7, 5, 1, 12, 3, 3, 8, 6)


def found_when_joining(models, sources, decoding, arrivals, prefixes=(), best=1):
    """Search with sentences that join before the steps in `arrivals`."""
    searching, found, steps = BeamSearch(models, decoding, best), {}, 0
    while len(found) < len(sources):
        now = [key for key, step in enumerate(arrivals) if step == steps]
        if now:
            longest = max(sources[key].size(1) for key in now)
            batch = [padded(sources[key], longest - sources[key].size(1)) for key in now]
            searching.add(torch.cat(batch), now, [prefixes[key] for key in now if prefixes])
        found |= searching.step()
        steps += 1
    assert not searching
    return [found[key] for key in range(len(sources))]


def same(found, alone):
    for one, other in zip(found, alone, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        scores = [h.score for h in other]
        assert [h.score for h in one] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [1, 4])
def test_when_a_sentence_joins_changes_nothing(seed, beam):
    model, decoding = tiny_model(vocabulary=21, seed=seed), Decoding(beam=beam, max_extra=5)
    sources = [ended(words(1, length, seed=length)) for length in LENGTHS]
    alone = [search([model], source, decoding)[0] for source in sources]
    chance = random.Random(seed)
    arrivals = [chance.choice([0, 0, 1, 2, 5, 9, 30, 31]) for _ in sources]
    same(found_when_joining([model], sources, decoding, arrivals), alone)


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_whatever_tells_the_model_its_positions(positions):
    model = small_model(positions=positions, max_positions=60)
    with torch.no_grad():
        model.embeddings["shared"].mul_(2.5)
    sources = [ended(words(1, length, seed=length)) for length in LENGTHS]
    decoding, arrivals = Decoding(beam=3, max_extra=5), [0, 1, 3, 3, 2, 7, 4, 0, 12, 2]
    alone = [search([model], source, decoding)[0] for source in sources]
    same(found_when_joining([model], sources, decoding, arrivals), alone)


def test_ensembles_prefixes_and_several_results():
    models = [tiny_model(vocabulary=21, seed=seed) for seed in (1, 2)]
    sources = [ended(words(1, length, seed=length)) for length in LENGTHS]
    prefixes = [[4, 5, 6], [], [7], [], [], [8, 9], [], [], [], [5] * 9]
    decoding, arrivals = Decoding(beam=4, length_penalty=0.3), [0, 1, 3, 3, 2, 7, 4, 0, 12, 2]
    alone = [
        search(models, source, decoding, [prefix], best=3)[0]
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    same(found_when_joining(models, sources, decoding, arrivals, prefixes, best=3), alone)


def test_a_beam_wider_than_the_vocabulary_is_shared_with_newcomers():
    models, decoding = [tiny_model(seed=5)], Decoding(beam=40, max_ratio=1.0, max_extra=2)
    sources = [ended(torch.tensor([ids])) for ids in ([4, 5], [5], [4, 4, 4])]
    alone = [search(models, source, decoding)[0] for source in sources]
    same(found_when_joining(models, sources, decoding, [0, 1, 2]), alone)


def test_all_rows_are_multiplied_together():
    model, rows = small_model(), []
    output = model.decoder[0].feed_forward[0]
    output.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].size(0)))
    with torch.no_grad():  # nothing ends before its limit
        model.decoder_norm.bias.copy_(-5 * model.embeddings["shared"][END_ID])
    sources = [ended(words(1, length)) for length in (6, 2)]
    found_when_joining([model], sources, Decoding(beam=2, max_ratio=1.0, max_extra=0), [0, 3])
    assert rows == [1, 2, 2, 3, 4, 4, 2]
