"""The length penalty for transformers: where it is known, and with the real one."""

import json
import math
import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from export.test_export import GOOD
from support.random_bundles import made_bundle
from unisono.export.length_penalty_fit import (
    best_length_penalty,
    keeps_first,
    typical_length_penalty,
)
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding
from unisono.translate.translator import RankedTranslation

WORDS = ["to", "be", "or", "not", "that", "is"]


def row(*pairs):
    """Alternatives with these log-probabilities and lengths, the best of ours first."""
    return [RankedTranslation("", 0.0, log, pieces) for log, pieces in pairs]


# The first stays first below log(1.1) / log(1.2), and above log(1.1) / log(1.4).
BELOW, ABOVE = row((-10, 10), (-11, 12)), row((-11, 14), (-10, 10))
LOWEST, HIGHEST = math.log(1.1) / math.log(1.4), math.log(1.1) / math.log(1.2)


def test_it_is_the_middle_of_where_most_translations_stay():
    found = best_length_penalty([BELOW, ABOVE], usual=0.8)
    assert found == pytest.approx((LOWEST + HIGHEST) / 2, abs=0.02)
    assert best_length_penalty([ABOVE], usual=0.8) > HIGHEST
    # Two against one.
    assert best_length_penalty([BELOW, BELOW, row((-11, 12), (-10, 10))], 0.8) < HIGHEST


def test_without_evidence_it_is_the_one_for_translations_of_typical_length():
    usual = typical_length_penalty(Decoding(length_penalty=1.0))
    assert usual == 0.8
    assert best_length_penalty([row((-3, 5))], usual) == usual
    assert best_length_penalty([], usual) == usual


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["gnmt", "power"])
def test_the_real_transformers_keeps_as_many_first_as_predicted(tmp_path, form):
    pytest.importorskip("transformers", reason="pip install unisono[huggingface]")
    from unisono.export.huggingface_export import HuggingfaceTranslator, write_huggingface

    draw = random.Random(4)
    lines = [" ".join(draw.choices(WORDS, k=6)) for _ in range(60)]
    pieces = learn_pieces([*lines, "abcdefghijklm"], size=40, character_coverage=1.0)
    ending = {"positions": "learned", "max_positions": 64, "end_after": 6}
    bundle = made_bundle(tmp_path / "bundle", Tokenizers(pieces, pieces), seed=5, **ending)
    search = {"beam": 4, "length_penalty": 2.0, "length_penalty_form": form}
    decoding = msgspec.structs.replace(bundle.description.decoding, **search)
    about = msgspec.structs.replace(bundle.description, decoding=decoding)
    bundle, path = replace(bundle, description=about), tmp_path / "export"
    found = replace(bundle.translator(), best=4).translations(lines)
    write_huggingface(path, bundle, "", lambda *_: GOOD, force=False, workers=1, fit_to=lines)
    settings = json.loads((path / "generation_config.json").read_text())
    if form == "power":
        assert settings["length_penalty"] == 2.0
    chosen, kept = settings["length_penalty"], []
    for penalty in (chosen, 2.2, 3.0):
        settings["length_penalty"] = penalty
        (path / "generation_config.json").write_text(json.dumps(settings))
        rewritten = HuggingfaceTranslator(path, "en", decoding)
        natives = [line.native for line in rewritten.translate_stream(lines)]
        kept.append(sum(a == b.text for a, b in zip(natives, found, strict=True)))
        predicted = sum(
            bool(keeps_first(line.alternatives, np.array([penalty]))[0]) for line in found
        )
        assert kept[-1] == predicted
    assert kept[0] == 60 > kept[1] > 0
