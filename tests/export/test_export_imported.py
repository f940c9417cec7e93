"""Models with an output bias, and two piece models over one vocabulary, in both engines."""

import warnings

import pytest
import torch

from export.test_export import GOOD, exported
from support.random_bundles import made_bundle
from unisono.bundle.huggingface import import_model
from unisono.bundle.reader import open_bundle
from unisono.errors import ConfigError
from unisono.export.obstacles import check_exportable, check_pieces
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers

TEXT = ["to be or not to be", "that is the question", "abcdefghijklmnopqrstuvwxyz"]
ENGLISH = ["a man walks home", "two dogs run in the snow", "the red house", "we see a tree"]
GERMAN = ["ein mann geht heim", "zwei hunde rennen im schnee"]


def biased_bundle(path, **changes):
    """Write a bundle of a model with a bias of random numbers."""
    pieces = learn_pieces(TEXT, size=90, character_coverage=1.0)
    return made_bundle(path, Tokenizers(pieces, pieces), output_bias=True, **changes)


@pytest.mark.parametrize("tied", [True, False])
def test_ctranslate2_adds_the_bias(tmp_path, tied):
    bundle = biased_bundle(tmp_path / "bundle", tied_embeddings=tied)
    assert bundle.model().output_bias.abs().sum() > 0
    before, after = bundle.translator(), exported(bundle, tmp_path / "export")
    assert after.translate(TEXT) == before.translate(TEXT)
    ids = [bundle.tokenizers.source.encode([line])[0] for line in TEXT]
    tokens = [[after.engine.source_tokens[i] for i in row] for row in ids]
    found = after.engine.translator.score_batch(tokens, tokens[::-1])
    expected = before.score_given(TEXT, TEXT[::-1])
    for one, other in zip(expected, found, strict=True):
        assert sum(other.log_probs) == pytest.approx(one.log_probability, abs=2e-3)


@pytest.fixture
def huggingface():
    pytest.importorskip("transformers", reason="pip install unisono[huggingface]")
    from unisono.export import huggingface_export

    return huggingface_export


def written(huggingface, bundle, path):
    huggingface.write_huggingface(path, bundle, "", lambda *_: GOOD, force=False, workers=1)
    return huggingface.open_huggingface(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformers_adds_the_bias(tmp_path, huggingface, norm):
    bundle = biased_bundle(tmp_path / "bundle", norm=norm)
    opened = written(huggingface, bundle, tmp_path / "export")
    assert difference(bundle, opened, ["to be", "that is"]) < 1e-4


def difference(bundle, opened, lines):
    """Return by how much the logits differ at most, after pieces of any kind."""
    source = opened.tokenizer(lines, return_tensors="pt", padding=True)
    rows = torch.randint(4, bundle.description.vocabulary, (len(lines), 6))
    target = torch.cat([torch.full((len(lines), 1), 2), rows], dim=1)
    with torch.inference_mode():
        ours = bundle.model()(source.input_ids, target)
        theirs = opened.model(**source, decoder_input_ids=target).logits
    assert ours.shape == theirs.shape
    return (ours - theirs).abs().max()


def imported(path, make):
    """Import what transformers saved, a Marian or Pegasus of random weights."""
    torch.manual_seed(1)
    make(path / "theirs")
    import_model(path / "theirs", path / "bundle", ("en", "de"))
    return open_bundle(path / "bundle")


@pytest.mark.filterwarnings("ignore")
def test_an_imported_marian_is_exported_to_both(tmp_path, huggingface):
    from bundle.test_huggingface import marian_directory

    bundle = imported(tmp_path, marian_directory)
    expected = bundle.translator().translate(ENGLISH)
    assert len(set(expected)) > 1
    assert exported(bundle, tmp_path / "ctranslate2").translate(ENGLISH) == expected
    check_exportable(bundle.description, "huggingface", where="here")
    check_pieces(bundle.tokenizers, "huggingface", where="here")
    opened = written(huggingface, bundle, tmp_path / "huggingface")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package
        theirs = opened.tokenizer(ENGLISH)["input_ids"]
    assert theirs == [[*ids, 3] for ids in bundle.tokenizers.source.encode(ENGLISH)]
    assert difference(bundle, opened, ENGLISH) < 1e-4
    german = bundle.tokenizers.target.encode(GERMAN)
    assert opened.tokenizer.batch_decode(german) == bundle.tokenizers.target.decode(german)
    with pytest.raises(ConfigError, match="a piece model for each language"):
        check_exportable(bundle.description, "argos", where="here")


@pytest.mark.filterwarnings("ignore")
def test_an_imported_pegasus_is_exported_to_ctranslate2(tmp_path, huggingface):
    from bundle.test_huggingface import pegasus_directory

    bundle = imported(tmp_path, pegasus_directory)
    expected = bundle.translator().translate(ENGLISH)
    assert exported(bundle, tmp_path / "ctranslate2").translate(ENGLISH) == expected
    with pytest.raises(ConfigError, match="rules or symbols of its own"):
        check_pieces(bundle.tokenizers, "huggingface", where="here")
