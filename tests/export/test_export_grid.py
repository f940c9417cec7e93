"""Every choice of a model, for every format: exported and loaded for real, or refused."""

import json
from itertools import product

import msgspec
import pytest
import torch

from export.test_export import GOOD, LINES, exported, made_bundle
from unisono.errors import ConfigError
from unisono.export.obstacles import FORMATS, check_exportable, check_pieces
from unisono.models.settings import PRESETS
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers

TEXT = [*LINES, "abcdefghijklmnopqrstuvwxyz", "The quick brown fox jumps over 12 lazy dogs."]
GRID = list(
    product(
        ["pre", "post"],
        ["sinusoid", "learned", "rotary"],
        ["relu", "gelu", "silu", "swiglu"],
        [True, False],
        ["joint", "two"],
    )
)
BOTH_VOCABULARIES = "vocabulary for each language"


@pytest.fixture(scope="module")
def pieces():
    return learn_pieces(TEXT, size=90, character_coverage=1.0)


def bundle_of(path, pieces, choice):
    norm, positions, activation, tied, vocabularies = choice
    other = learn_pieces(TEXT, size=80, character_coverage=1.0)
    sides = Tokenizers(pieces, pieces if vocabularies == "joint" else other)
    rows = 64 if positions == "learned" else 0
    changes = {"norm": norm, "positions": positions, "activation": activation}
    return made_bundle(path, sides, **changes, tied_embeddings=tied, max_positions=rows)


def described_as(about, choice):
    norm, positions, activation, tied, vocabularies = choice
    changes = {"norm": norm, "positions": positions, "activation": activation}
    model = msgspec.structs.replace(about.model, **changes, tied_embeddings=tied)
    source = 0 if vocabularies == "joint" else 80
    return msgspec.structs.replace(about, model=model, source_vocabulary=source)


def expected_obstacle(to, norm, positions, activation, tied, vocabularies):
    """Return part of the reason why this cannot be exported, or ""."""
    if to == "ctranslate2":
        return ""
    if vocabularies == "two":
        return BOTH_VOCABULARIES
    if to == "argos":
        return ""
    if positions == "rotary":
        return "no rotary positions"
    if positions == "learned" and norm == "post":
        return "forgets learned positions"
    return "no gated activation" if activation == "swiglu" else ""


@pytest.mark.parametrize("to", FORMATS)
def test_every_choice_is_accepted_or_refused_with_the_reason(tmp_path, pieces, to):
    refused, first = 0, bundle_of(tmp_path / "bundle", pieces, GRID[0]).description
    for choice in GRID:
        about = described_as(first, choice)
        reason = expected_obstacle(to, *choice)
        for sizes in PRESETS.values():
            model = msgspec.structs.replace(about.model, **sizes)
            described = msgspec.structs.replace(about, model=model)
            if reason:
                with pytest.raises(ConfigError, match=reason):
                    check_exportable(described, to, where="here")
                refused += 1
            else:
                check_exportable(described, to, where="here")
    assert refused == {"ctranslate2": 0, "argos": 240, "huggingface": 390}[to]


@pytest.mark.parametrize("choice", GRID, ids=str)
def test_ctranslate2_scores_what_every_choice_scores(tmp_path, pieces, choice):
    bundle = bundle_of(tmp_path / "bundle", pieces, choice)
    engine = exported(bundle, tmp_path / "export").engine
    lines, given = ["to be or not", "a"], ["that is", "the question be"]
    sides = bundle.tokenizers
    sources = [[engine.source_tokens[i] for i in ids] for ids in sides.source.encode(lines)]
    targets = [[engine.target_tokens[i] for i in ids] for ids in sides.target.encode(given)]
    found = engine.translator.score_batch(sources, targets)
    expected = bundle.translator().score_given(lines, given)
    for ours, theirs in zip(expected, found, strict=True):
        assert len(theirs.log_probs) == ours.pieces
        assert sum(theirs.log_probs) == pytest.approx(ours.log_probability, abs=2e-3)


HUGGINGFACE = [choice for choice in GRID if not expected_obstacle("huggingface", *choice)]


@pytest.fixture(scope="module")
def huggingface():
    pytest.importorskip("transformers", reason="pip install unisono[huggingface]")
    from unisono.export import huggingface_export

    return huggingface_export


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("choice", HUGGINGFACE, ids=str)
def test_transformers_computes_the_same_logits(tmp_path, pieces, huggingface, choice):
    bundle = bundle_of(tmp_path / "bundle", pieces, choice)
    huggingface.write_huggingface(
        tmp_path / "export", bundle, "", lambda *_: GOOD, force=False, workers=1
    )
    opened = huggingface.open_huggingface(tmp_path / "export")
    kind = {"pre": "pegasus", "post": "marian"}[choice[0]]
    assert json.loads((tmp_path / "export" / "config.json").read_text())["model_type"] == kind
    source = opened.tokenizer(["to be", "that is"], return_tensors="pt", padding=True)
    target = torch.tensor([[2, 7, 9, 11, 8], [2, 5, 6, 20, 30]])
    with torch.inference_mode():
        ours = bundle.model()(source.input_ids, target)
        theirs = opened.model(**source, decoder_input_ids=target).logits
    assert (ours - theirs).abs().max() < 1e-4
    assert ours.std() > 0.1


ODD = ["  a\u00a0b\u200bc ▁ x", "e\u0301 é", "日本 12", "“to be” ‘or’ «not»", "TO BE", "\t"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes"])
@pytest.mark.parametrize("changes", [{}, {"plain_quotes": True, "lowercase": True}])
def test_their_tokenizer_splits_as_ours_does(tmp_path, huggingface, kind, changes):
    from unisono.export.huggingface_tokenizer import write_tokenizer
    from unisono.text.normalise import Normalisation

    some = {"size": 350, "byte_fallback": True} if kind == "bytes" else {"size": 90}
    how = "unigram" if kind == "unigram" else "bpe"
    pieces = learn_pieces(TEXT, character_coverage=1.0, pieces=how, **some)
    settings = {"plain_quotes": False, "lowercase": False, **changes}
    write_tokenizer(tmp_path, pieces, max_pieces=30, **settings)
    theirs = huggingface.AutoTokenizer.from_pretrained(str(tmp_path))
    lines = [*LINES, *TEXT, *ODD]
    ours = pieces.encode(Normalisation(**settings)(lines))
    assert [theirs(line).input_ids for line in lines] == [[*ids, 3] for ids in ours]
    known = [ids for ids in ours if 1 not in ids]
    shown = [theirs.decode(ids, skip_special_tokens=True) for ids in known]
    assert shown == pieces.decode(known)


def test_pieces_from_elsewhere_are_refused_before_anything_is_written(tmp_path):
    import io

    import sentencepiece

    from unisono.text.sentence_pieces import SentencePieces

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        vocab_size=90,
        minloglevel=3,
        model_type="bpe",
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False,
    )
    foreign = SentencePieces(model.getvalue())
    with pytest.raises(ConfigError, match="rules or symbols of its own"):
        check_pieces(Tokenizers(foreign, foreign), "huggingface", where="here")
    check_pieces(Tokenizers(foreign, foreign), "argos", where="here")
