"""Shapes: B sentences, S source positions, T target positions, V vocabulary."""

import msgspec
import pytest
import torch

from models.sample import SETTINGS, VOCABULARY, padded, small_model, words
from unisono.errors import ConfigError
from unisono.models.transformer import build_model, load_model

VARIANTS = {
    "pre": {},
    "post": {"norm": "post"},
    "untied": {"tied_embeddings": False},
    "gelu": {"activation": "gelu"},
    "swiglu": {"activation": "swiglu"},
    "learned": {"positions": "learned", "max_positions": 12},
    "rotary": {"positions": "rotary"},
    "rotary post": {"positions": "rotary", "norm": "post", "activation": "swiglu"},
    "depth scaled": {"initialisation": "depth_scaled", "norm": "post"},
    "deep": {"encoder_layers": 4, "decoder_layers": 1},
}


@pytest.fixture(params=VARIANTS)
def model(request):
    return small_model(**VARIANTS[request.param])


def test_word_by_word_is_all_at_once(model):
    source, target = words(3, 6), words(3, 5, seed=4)
    source[1, 4:] = 0
    at_once = model(source, target)
    cache = model.start(model.encode(source))
    steps = []
    for position in range(5):
        logits, cache = model.decode(target[:, position : position + 1], cache)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), at_once)


def test_pieces_of_several_words_are_all_at_once(model):
    source, target = words(2, 6), words(2, 7, seed=4)
    cache = model.start(model.encode(source))
    first, cache = model.decode(target[:, :3], cache)
    second, cache = model.decode(target[:, 3:], cache)
    torch.testing.assert_close(torch.cat([first, second], dim=1), model(source, target))
    assert cache.length == 7


def test_several_rows_of_a_sentence_are_as_good_as_several_sentences(model):
    source, target = words(2, 6), words(6, 4, seed=4)
    source[1, 3:] = 0
    together, _ = model.decode(target, model.start(model.encode(source)))
    torch.testing.assert_close(together, model(source.repeat_interleave(3, dim=0), target))


def test_selected_rows_of_a_cache_go_on_as_themselves(model):
    source, target = words(3, 6), words(6, 4, seed=4)
    source[0, 3:] = 0
    _, cache = model.decode(target[:, :3], model.start(model.encode(source)))
    rows = torch.tensor([1, 1, 5, 4])
    chosen, _ = model.decode(target[rows, 3:], cache.select(rows, torch.tensor([0, 2])))
    expected = model(source[[0, 0, 2, 2]], target[rows])[:, 3:]
    torch.testing.assert_close(chosen, expected)


@pytest.mark.parametrize("count", [1, 5])
def test_source_padding_changes_nothing(model, count):
    source, target = words(2, 5), words(2, 7, seed=4)
    torch.testing.assert_close(model(padded(source, count), target), model(source, target))


def test_padding_of_one_sentence_changes_nothing_for_another(model):
    source, target = words(2, 5), words(2, 7, seed=4)
    shorter = source.clone()
    shorter[1, 2:] = 0
    torch.testing.assert_close(model(shorter, target)[0], model(source, target)[0])
    alone = model(source[1:, :2], target[1:])
    torch.testing.assert_close(model(shorter, target)[1:], alone)


def test_target_padding_changes_nothing(model):
    source, target = words(2, 5), words(2, 7, seed=4)
    torch.testing.assert_close(model(source, padded(target, 3))[:, :7], model(source, target))


def test_no_word_sees_a_later_one(model):
    source, target = words(2, 5), words(2, 7, seed=4)
    changed = target.clone()
    changed[:, 4:] = words(2, 3, seed=9)
    before, after = model(source, target), model(source, changed)
    torch.testing.assert_close(after[:, :4], before[:, :4], rtol=0, atol=0)
    assert not torch.allclose(after[:, 4], before[:, 4])


def test_every_word_sees_the_whole_source_and_all_words_before(model):
    source, target = words(1, 5), words(1, 4, seed=4)
    reference = model(source, target)[0, -1]
    for position in range(5):
        changed = source.clone()
        changed[0, position] = 4 + (source[0, position] - 3) % (VOCABULARY - 4)
        assert not torch.allclose(model(changed, target)[0, -1], reference)
    for position in range(4):
        changed = target.clone()
        changed[0, position] = 4 + (target[0, position] - 3) % (VOCABULARY - 4)
        assert not torch.allclose(model(source, changed)[0, -1], reference)


def test_whoever_finishes_gets_the_states_behind_the_logits(model):
    source, target = words(2, 5), words(2, 4, seed=4)

    def finish(states, output):
        assert states.shape == (2, 4, 16)
        return output.logits(states[:, -1])

    torch.testing.assert_close(model(source, target, finish), model(source, target)[:, -1])


def test_the_matrix_is_rounded_up_and_the_logits_are_not():
    model = small_model()
    assert model.embeddings["shared"].shape == (24, 16)
    assert model(words(2, 5), words(2, 4)).shape == (2, 4, VOCABULARY)


def test_tied_embeddings_are_one_matrix_and_untied_are_three():
    assert list(small_model().embeddings) == ["shared"]
    untied = small_model(tied_embeddings=False)
    source, target = words(2, 5), words(2, 4, seed=4)
    untied(source, target).sum().backward()
    used = {
        name: set(matrix.grad.abs().sum(1).nonzero().flatten().tolist())
        for name, matrix in untied.embeddings.items()
    }
    assert used["source"] == set(source.flatten().tolist())
    assert used["target"] == set(target.flatten().tolist())
    assert used["output"] == set(range(VOCABULARY))


@pytest.mark.parametrize(
    "name", ["dropout", "attention_dropout", "activation_dropout", "word_dropout"]
)
def test_each_dropout_acts_in_training_and_only_there(name):
    model = small_model(**{name: 0.5})
    source, target = words(2, 5), words(2, 4, seed=4)
    calm = small_model()(source, target)
    torch.testing.assert_close(model(source, target), calm, rtol=0, atol=0)
    assert not torch.allclose(model.train()(source, target), calm)


def test_a_sentence_longer_than_any_before_makes_the_table_grow():
    model = small_model()
    with torch.inference_mode():
        model(words(1, 600), words(1, 4))
    assert model.positions.sinusoids.table.size(0) >= 600
    assert not model.positions.sinusoids.table.is_inference()
    model.train()(words(1, 600), words(1, 4)).sum().backward()
    assert not [name for name in model.state_dict() if name.startswith("positions")]


def test_fresh_logits_are_near_unit_size():
    torch.manual_seed(1)
    settings = msgspec.structs.replace(SETTINGS, width=128, heads=4, inner=512)
    logits = build_model(settings, 1000)(words(8, 20), words(8, 20, seed=4))
    assert 0.5 < logits.std().item() < 2.0


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="width 16 cannot be split over 3 heads"):
        small_model(heads=3)


@pytest.mark.parametrize("choices", VARIANTS.values(), ids=VARIANTS)
def test_a_model_loaded_from_its_weights_is_the_same(choices):
    model = small_model(**choices)
    loaded = load_model(model.settings, VOCABULARY, model.state_dict()).eval()
    source, target = words(2, 5), words(2, 4, seed=4)
    assert torch.equal(loaded(source, target), model(source, target))


@pytest.mark.parametrize("tied", [True, False])
def test_a_source_with_its_own_vocabulary_has_its_own_matrix(tied):
    settings = msgspec.structs.replace(SETTINGS, tied_embeddings=tied)
    model = build_model(settings, VOCABULARY, source_vocabulary=45).eval()
    names = ["source", "shared"] if tied else ["source", "target", "output"]
    assert {name: matrix.size(0) for name, matrix in model.embeddings.items()} == {
        name: 48 if name == "source" else 24 for name in names
    }
    source, target = torch.tensor([[44, 40, 3]]), words(1, 4, seed=4)
    logits = model(source, target)
    assert logits.shape == (1, 4, VOCABULARY)
    logits.sum().backward()
    used = {
        name: set(matrix.grad.abs().sum(1).nonzero().flatten().tolist())
        for name, matrix in model.embeddings.items()
    }
    assert used["source"] == {44, 40, 3}
    assert used[names[-1]] == set(range(VOCABULARY))


def test_a_source_with_the_same_number_of_pieces_still_shares_nothing():
    model = build_model(SETTINGS, VOCABULARY, source_vocabulary=VOCABULARY)
    assert set(model.embeddings) == {"source", "shared"}
