"""Positions against complex numbers, and against each other."""

import pytest
import torch

from models.sample import small_model, words
from unisono.errors import ConfigError, DataError
from unisono.models.positions import rotated, sinusoids


def test_turning_is_multiplying_by_a_complex_number_of_size_one():
    torch.manual_seed(1)
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    rates = 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    angles = torch.arange(7)[:, None] * rates
    product = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(
        torch.ones_like(angles), angles
    )
    expected = torch.cat([product.real, product.imag], dim=-1)
    torch.testing.assert_close(rotated(x, sinusoids(7, 8)), expected, rtol=1e-5, atol=1e-5)


def test_what_a_rotated_query_sees_depends_on_the_distance_alone():
    torch.manual_seed(1)
    query, key, turn = torch.randn(8), torch.randn(8), sinusoids(40, 8)

    def score(here, there):
        one = rotated(query.view(1, 1, 1, 8), turn[here : here + 1])
        other = rotated(key.view(1, 1, 1, 8), turn[there : there + 1])
        return (one * other).sum()

    for here, there in ((5, 2), (2, 9), (7, 7)):
        moved = score(here + 30, there + 30)
        torch.testing.assert_close(moved, score(here, there), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(score(5, 2), score(2, 5))


def test_turning_keeps_the_kind_of_number():
    assert rotated(torch.ones(1, 1, 3, 4, dtype=torch.bfloat16), sinusoids(3, 4)).dtype == (
        torch.bfloat16
    )


def rotary_by_hand(layer, x):
    """Return what the heads of `layer` see in `x` (T, D), one word and one head at a time."""
    length, width = x.shape
    size = width // layer.heads
    query, key, value = layer.query_key_value(x).view(length, 3, layer.heads, size).unbind(1)
    rates = 10000.0 ** (-torch.arange(size // 2) * 2 / size)
    seen = torch.zeros(length, layer.heads, size)
    for head in range(layer.heads):
        for here in range(length):
            scores = []
            for there in range(length):
                one, other = query[here, head], key[there, head]
                pairs = torch.complex(*one.chunk(2)) * torch.complex(*other.chunk(2)).conj()
                turn = torch.polar(torch.ones(size // 2), (here - there) * rates)
                scores.append((pairs * turn).real.sum() / size**0.5)
            seen[here, head] = torch.stack(scores).softmax(0) @ value[:, head]
    return layer.output(seen.flatten(1))


def test_self_attention_of_both_sides_turns_and_attention_to_the_source_does_not():
    model = small_model(positions="rotary")
    met = {}

    def remember(name):
        def hook(module, inputs, output):
            met[name] = (inputs[0], output)

        return hook

    encoder, decoder = model.encoder[0], model.decoder[0]
    encoder.around_attention.norm.register_forward_hook(remember("encoder norm"))
    encoder.around_attention.register_forward_hook(remember("encoder"))
    decoder.around_self.norm.register_forward_hook(remember("decoder norm"))
    decoder.around_self.register_forward_hook(remember("decoder"))
    with torch.no_grad():
        model(words(1, 6), words(1, 5, seed=4))
        for side, layer in (
            ("encoder", encoder.attention),
            ("decoder", decoder.self_attention),
        ):
            normed = met[f"{side} norm"][-1][0]
            added = (met[side][-1] - met[side][0])[0]
            last = rotary_by_hand(layer, normed)[-1]  # the last word of both sees all words
            torch.testing.assert_close(added[-1], last, rtol=1e-4, atol=1e-5)
    states = torch.randn(1, 6, 16)
    source = decoder.cross_attention.keys_and_values(states)
    moved = tuple(part.flip(2) for part in source)
    x = torch.randn(1, 3, 16)
    seen, again = (decoder.cross_attention(x, memory, None) for memory in (source, moved))
    torch.testing.assert_close(seen, again)


@pytest.mark.parametrize("positions", ["sinusoid", "learned", "rotary"])
def test_the_order_of_words_matters(positions):
    model = small_model(positions=positions, max_positions=8)
    source, target = words(1, 6), words(1, 5, seed=4)
    assert not torch.allclose(model(source.flip(1), target), model(source, target))
    other = target.clone()
    other[0, 0], other[0, 1] = target[0, 1], target[0, 0]
    assert not torch.allclose(model(source, other)[0, -1], model(source, target)[0, -1])


def test_learned_positions_begin_as_sinusoids():
    source, target = words(2, 6), words(2, 5, seed=4)
    learned = small_model(positions="learned", max_positions=6)
    assert torch.equal(learned(source, target), small_model()(source, target))


def test_source_and_target_learn_the_positions_they_met():
    model = small_model(positions="learned", max_positions=9)
    model(words(2, 6), words(2, 4)).square().sum().backward()
    for side, length in (("source", 6), ("target", 4)):
        used = model.positions.get_parameter(side).grad.abs().sum(1).nonzero().flatten()
        assert used.tolist() == list(range(length))


def test_beyond_the_last_learned_position_it_says_so():
    model = small_model(positions="learned", max_positions=6)
    with pytest.raises(DataError, match="source sentence reaches position 7.* only 6"):
        model(words(1, 7), words(1, 3))
    _, cache = model.decode(words(1, 6), model.start(model.encode(words(1, 6))))
    with pytest.raises(DataError, match="target sentence reaches position 7.* only 6"):
        model.decode(words(1, 1), cache)


@pytest.mark.parametrize("positions", ["sinusoid", "rotary"])
def test_the_other_positions_know_no_end(positions):
    model = small_model(positions=positions, max_positions=6)
    assert model(words(1, 700), words(1, 3)).isfinite().all()


def test_impossible_positions_are_refused():
    with pytest.raises(ConfigError, match="a head is 5 wide"):
        small_model(positions="rotary", width=20, heads=4)
    with pytest.raises(ConfigError, match="need a largest position"):
        small_model(positions="learned")
