"""A bundle comes back as it went, or not at all."""

import json
import random
import shutil

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from models.sample import SETTINGS
from unisono.bundle.format import DESCRIPTION, MANIFEST, WEIGHTS, as_json, manifest_of
from unisono.bundle.reader import open_bundle
from unisono.bundle.writer import write_bundle
from unisono.errors import DataError
from unisono.models.transformer import build_model
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translator

DECODING = Decoding(beam=2, max_ratio=1.0, max_extra=2)
PIECES = "pieces.model"
TOKENIZERS = Tokenizers(*[BytePieces()] * 2)
LINES = ["guten Tag", "", "wie geht es dir", "x" * 50]


def model_of(seed=0, **choices):
    torch.manual_seed(seed)
    return build_model(msgspec.structs.replace(SETTINGS, **choices), BytePieces.size).eval()


def write(path, model, step=7):
    return write_bundle(
        path,
        model=model,
        tokenizers=TOKENIZERS,
        normalisation=Normalisation(),
        source_language="de",
        target_language="en",
        decoding=DECODING,
        max_pieces=20,
        step=step,
        scores={"bleu": 31.5},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "bundle"
    write(path, model_of())
    return path


@pytest.fixture
def bundle(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "bundle")


def sign(bundle):
    """Let the manifest vouch for the files as they are now."""
    (bundle / MANIFEST).write_bytes(as_json(manifest_of(bundle)))


def change_weights(bundle, change):
    weights = load_file(bundle / WEIGHTS)
    change(weights)
    save_file(weights, bundle / WEIGHTS)
    sign(bundle)


def describe(bundle, **changes):
    description = json.loads((bundle / DESCRIPTION).read_text())
    (bundle / DESCRIPTION).write_text(json.dumps(description | changes))
    sign(bundle)


@pytest.mark.parametrize(
    "choices", [{}, {"norm": "post"}, {"tied_embeddings": False}], ids=["pre", "post", "untied"]
)
def test_it_comes_back_as_it_went(tmp_path, choices):
    model = model_of(**choices)
    written = write(tmp_path / "bundle", model)
    opened = open_bundle(tmp_path / "bundle")
    assert opened.description == written
    assert opened.description.scores == {"bleu": 31.5}
    weights = opened.model().state_dict()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], w) for name, w in model.state_dict().items())
    direct = Translator([model], TOKENIZERS, DECODING, max_pieces=20)
    assert opened.translator().translate(LINES) == direct.translate(LINES)


def test_another_decoding_can_be_asked_for(whole):
    greedy = Decoding(beam=1, max_ratio=0.5, max_extra=0)
    assert open_bundle(whole).translator(decoding=greedy).decoding == greedy
    assert open_bundle(whole).translator().decoding == DECODING


def test_a_loaded_model_can_be_trained_on(whole):
    model = open_bundle(whole).model().train()
    model(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 6]])).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_nothing_else_is_in_it(whole):
    names = {path.name for path in whole.iterdir()}
    assert names == {DESCRIPTION, WEIGHTS, PIECES, MANIFEST}
    assert {path.name for path in whole.parent.iterdir()} == {"bundle"}


def test_a_new_bundle_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "bundle"
    (tmp_path / "bundle.old").mkdir()  # left by a writer that was killed
    (tmp_path / "bundle.new").mkdir()
    write(path, model_of(), step=1)
    write(path, model_of(seed=1), step=2)
    assert open_bundle(path).description.step == 2
    assert {entry.name for entry in tmp_path.iterdir()} == {"bundle"}


def test_a_writer_that_fails_leaves_the_old_bundle(bundle):
    before = (bundle / WEIGHTS).read_bytes()
    broken = model_of()
    with pytest.raises(UnicodeEncodeError):
        write_bundle(
            bundle,
            model=broken,
            tokenizers=TOKENIZERS,
            normalisation=Normalisation(),
            source_language="\ud800",
            target_language="en",
            decoding=DECODING,
            max_pieces=20,
            step=1,
            scores={},
        )
    assert (bundle / WEIGHTS).read_bytes() == before
    open_bundle(bundle)
    assert [entry.name for entry in bundle.parent.iterdir()] == ["bundle"]


def test_what_is_no_bundle_is_not_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").touch()
    with pytest.raises(DataError, match="in the way"):
        write(tmp_path / "thesis", model_of())
    assert (tmp_path / "thesis" / "chapter1.tex").exists()


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS, PIECES, MANIFEST])
@settings(max_examples=30)
@given(data=st.data())
def test_a_flipped_bit_is_found(whole, tmp_path_factory, name, data):
    bundle = shutil.copytree(whole, tmp_path_factory.mktemp("flip") / "bundle")
    content = bytearray((bundle / name).read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    (bundle / name).write_bytes(content)
    with pytest.raises(DataError):
        open_bundle(bundle)


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS, PIECES, MANIFEST])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.999])
def test_a_cut_file_is_found(bundle, name, kept):
    content = (bundle / name).read_bytes()
    (bundle / name).write_bytes(content[: min(int(kept * len(content)), len(content) - 2)])
    with pytest.raises(DataError, match=name):
        open_bundle(bundle)


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS, PIECES, MANIFEST])
def test_a_missing_file_is_found(bundle, name):
    (bundle / name).unlink()
    with pytest.raises(DataError, match=name):
        open_bundle(bundle)


def test_a_directory_that_is_no_bundle_is_told_from_a_damaged_one(tmp_path):
    with pytest.raises(DataError, match="not a bundle"):
        open_bundle(tmp_path)


def extra(weights):
    weights["extra"] = torch.zeros(1)


def missing(weights):
    del weights["decoder_norm.bias"]
    weights["padding of the file"] = torch.zeros(100)


def wrong_shape(weights):
    weights["decoder_norm.bias"] = torch.zeros(17)


def wrong_type(weights):
    weights["decoder_norm.bias"] = torch.zeros(16, dtype=torch.float64)


@pytest.mark.parametrize("change", [extra, missing, wrong_shape, wrong_type])
def test_weights_that_do_not_fit_are_found_though_the_manifest_vouches_for_them(bundle, change):
    change_weights(bundle, change)
    with pytest.raises(DataError, match=r"extra|decoder_norm\.bias"):
        open_bundle(bundle)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"format": 2}, "format 2"),
        ({"vocabulary": 255}, "imply"),
        ({"vocabulary": 259}, "259"),
        ({"tokenizer": "wordpiece"}, "wordpiece"),
        ({"model": msgspec.to_builtins(SETTINGS) | {"heads": 3}}, "3 heads"),
        ({"model": {"encoder_layers": 10**9}}, "smaller"),
        ({"model": {"depth": 3}}, "depth"),
        ({"step": "seven"}, "step"),
    ],
)
def test_a_description_that_does_not_fit_is_found(bundle, changes, what):
    describe(bundle, **changes)
    with pytest.raises(DataError, match=what):
        open_bundle(bundle)


def test_weights_that_are_no_safetensors_are_found(bundle):
    size = (bundle / WEIGHTS).stat().st_size
    (bundle / WEIGHTS).write_bytes(random.Random(1).randbytes(size))
    sign(bundle)
    with pytest.raises(DataError, match=WEIGHTS):
        open_bundle(bundle)


def test_what_a_later_version_adds_is_skipped(bundle):
    describe(bundle, licence="CC0")
    assert open_bundle(bundle).description.step == 7


def separate(path, **choices):
    """Write a bundle whose languages have their own pieces; return these."""
    texts = (["guten tag", "wie geht es"], ["good day how are you doing"])
    both = Tokenizers(*(learn_pieces(t, size=60, character_coverage=1.0) for t in texts))
    torch.manual_seed(0)
    model = build_model(SETTINGS, both.target.size, both.source.size).eval()
    write_bundle(
        path,
        model=model,
        tokenizers=both,
        normalisation=Normalisation(**choices),
        source_language="de",
        target_language="en",
        decoding=DECODING,
        max_pieces=20,
        step=1,
        scores={},
    )
    return both, model


def test_two_vocabularies_come_back(tmp_path):
    both, model = separate(tmp_path / "bundle")
    assert both.source.size != both.target.size
    opened = open_bundle(tmp_path / "bundle")
    names = {path.name for path in opened.path.iterdir()}
    pieces = {"pieces.source.model", "pieces.target.model"}
    assert names == {DESCRIPTION, WEIGHTS, MANIFEST} | pieces
    assert opened.tokenizers.source.model == both.source.model
    assert opened.tokenizers.target.model == both.target.model
    direct = Translator([model], both, DECODING, max_pieces=20)
    lines = ["guten tag", "wie geht es", ""]
    assert opened.translator().translate(lines) == direct.translate(lines)
    assert any(direct.translate(lines))


def test_a_bundle_knows_how_its_text_was_written(tmp_path):
    separate(tmp_path / "bundle", lowercase=True)
    opened = open_bundle(tmp_path / "bundle")
    assert opened.translator().normalisation == Normalisation(lowercase=True)
    upper, lower = opened.translator().translate(["GUTEN Tag", "guten tag"])
    assert upper == lower != ""


def test_pieces_of_the_wrong_side_are_noticed(tmp_path):
    path = tmp_path / "bundle"
    separate(path)
    source, target = path / "pieces.source.model", path / "pieces.target.model"
    contents = source.read_bytes(), target.read_bytes()
    target.write_bytes(contents[0])
    source.write_bytes(contents[1])
    (path / MANIFEST).unlink()
    (path / MANIFEST).write_bytes(as_json(manifest_of(path)))
    with pytest.raises(DataError, match=r"pieces\.source\.model is damaged: it has"):
        open_bundle(path)


def test_a_description_that_needs_other_files_is_noticed(tmp_path):
    path = tmp_path / "bundle"
    separate(path)
    (path / "pieces.source.model").rename(path / "pieces.model")
    (path / "pieces.target.model").unlink()
    (path / MANIFEST).unlink()
    (path / MANIFEST).write_bytes(as_json(manifest_of(path)))
    with pytest.raises(DataError, match=r"pieces\.source\.model is damaged"):
        open_bundle(path)
