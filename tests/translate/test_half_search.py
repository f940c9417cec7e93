"""The search in bf16: nearly the scores of fp32, and the same bits in any company."""

from dataclasses import replace

import msgspec
import pytest
import torch

from models.sample import SETTINGS, padded
from unisono.models.transformer import build_model
from unisono.text.tokenizer import END_ID
from unisono.translate.beam import search
from unisono.translate.ensemble import start_decoding
from unisono.translate.sampling import given_log_probabilities
from unisono.translate.settings import Decoding

pytestmark = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bf16 here"
)
VOCABULARY = 500


def model_of(*, packed, **choices):
    torch.manual_seed(5)
    settings = msgspec.structs.replace(SETTINGS, width=64, heads=2, inner=128, **choices)
    model = build_model(settings, VOCABULARY).eval()
    with torch.no_grad():  # sharper than a fresh model, so that there is something to find
        model.embeddings["shared"].mul_(1.5)
    if packed:
        model.pack()
    return model


def sources():
    drawn = torch.Generator().manual_seed(3)
    rows = [
        torch.randint(4, VOCABULARY, (1, length), generator=drawn)
        for length in (40, 17, 16, 15, 9, 7, 3, 2, 1)
    ]
    return [torch.cat([row, torch.full((1, 1), END_ID)], dim=1) for row in rows]


@pytest.mark.parametrize("choices", [{}, {"output_bias": True}, {"activation": "swiglu"}])
def test_scores_are_near_those_of_fp32(choices):
    exact, model = (model_of(packed=packed, **choices) for packed in (False, True))
    if choices.get("output_bias"):
        with torch.no_grad():
            for one in (exact, model):
                one.output_bias.normal_(generator=torch.Generator().manual_seed(1))
        model.pack()
    for source in sources():
        found = search([model], source, Decoding(max_extra=3, max_ratio=1.0))[0]
        ends = [torch.tensor([[*hypothesis.ids, END_ID]]) for hypothesis in found]
        wanted = [given_log_probabilities([exact], source, target)[0] for target in ends]
        assert [h.log_probability for h in found] == pytest.approx(wanted, rel=0.01, abs=0.02)


@pytest.mark.parametrize("choices", [{}, {"norm": "post", "positions": "rotary"}])
def test_a_sentence_has_the_same_bits_in_any_company(choices):
    model, rows = model_of(packed=True, **choices), sources()
    decoding = Decoding(beam=4, max_ratio=1.0, max_extra=4)
    alone = [search([model], row, decoding)[0] for row in rows]
    for order in (range(9), [8, 2, 5], [3, 1], [7, 0, 4, 6]):
        longest = max(rows[place].size(1) for place in order)
        batch = torch.cat([padded(rows[n], longest - rows[n].size(1)) for n in order])
        assert search([model], batch, decoding) == [alone[place] for place in order]


@torch.inference_mode()
def test_the_best_next_ids_have_the_logits_of_fp32():
    exact, model = model_of(packed=False), model_of(packed=True)
    source = sources()[0]
    states = start_decoding([model], source)
    ids = torch.full((1,), 2)
    read = states._states_after(ids)[0]
    found = states.step(ids, 5)[0]
    unpacked = replace(exact.output, packed=None)
    wanted = unpacked.logits(read[0]).log_softmax(1)
    torch.testing.assert_close(found.logs, wanted.gather(1, found.ids), rtol=0, atol=2e-3)
    torch.testing.assert_close(found.end, wanted[:, END_ID], rtol=0, atol=2e-3)
