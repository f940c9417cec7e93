"""The model of the default settings, as recorded before there were others to choose.

Old seeds must give the old weights, and dropout the old numbers: each choice that is off
draws nothing. The figures were recorded once; they tell change, not truth.
"""

import msgspec
import pytest
import torch

from models.sample import SETTINGS, VOCABULARY, words
from unisono.models.output import loss_sums
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model

WEIGHTS = {
    "embeddings.shared": -2.975904861245302,
    "encoder.0.attention.output.weight": -1.4500995777361823,
    "encoder.0.attention.query_key_value.weight": 1.5899806886179704,
    "encoder.0.feed_forward.0.weight": -2.856235518034282,
    "encoder.0.feed_forward.3.weight": -1.049611712952796,
    "encoder.1.feed_forward.3.weight": 1.1430696435489835,
    "decoder.0.self_attention.query_key_value.weight": 0.39692804851857016,
    "decoder.0.cross_attention.query.weight": -5.320264086522002,
    "decoder.0.cross_attention.key_value.weight": 0.7369040424032391,
    "decoder.1.cross_attention.output.weight": -2.366214371496426,
    "decoder.1.feed_forward.0.weight": -0.2039032276229591,
    "decoder.1.feed_forward.3.weight": 1.4598490473906622,
    "decoder_norm.weight": 8.5,
}
LOSSES = {
    ("pre", 0.0): 57.948177337646484,
    ("pre", 0.3): 55.08308792114258,
    ("post", 0.0): 54.87154769897461,
    ("post", 0.3): 54.35354995727539,
}


def fresh(**choices):
    torch.manual_seed(11)
    return build_model(msgspec.structs.replace(SETTINGS, **choices), VOCABULARY).train()


def test_a_seed_gives_the_weights_it_always_gave():
    weights = fresh().state_dict()
    assert len(weights) == 69
    for name, recorded in WEIGHTS.items():
        values = weights[name].double().flatten()
        places = torch.arange(1, values.numel() + 1)
        assert (values * places).mean().item() == pytest.approx(recorded, rel=1e-5), name


@pytest.mark.parametrize(("norm", "share"), LOSSES)
def test_a_seed_gives_the_loss_it_always_gave(norm, share):
    shares = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), share)
    model = fresh(norm=norm, **shares)
    torch.manual_seed(5)
    source, target = words(3, 7), words(3, 6, seed=4)
    source[1, 4:] = 0
    loss = loss_sums(model, source, target[:, :-1], target[:, 1:], 0.1)
    assert loss.item() == pytest.approx(LOSSES[norm, share], rel=1e-5)


def test_what_is_new_is_off_unless_chosen():
    new = TransformerSettings()
    assert (new.word_dropout, new.activation, new.positions) == (0.0, "relu", "sinusoid")
    assert new.initialisation == "xavier"
