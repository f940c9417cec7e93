import msgspec
import pytest
from preparing import corpus_settings, names, pair, prepare, sentences, small_data

from unisono.corpus import open_corpus
from unisono.errors import DataError
from unisono.prepare import prepare_corpus


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The path of a model of pieces made from the words of the tests."""
    home = tmp_path_factory.mktemp("given")
    prepare(small_data(home / "text"), home / "corpus")
    return str(home / "corpus" / "pieces.model")


@pytest.mark.parametrize("joint", [True, False])
def test_pieces_that_are_given_are_used(given, tmp_path, joint):
    models = {"pieces_model": given}
    if not joint:
        models["target_pieces_model"] = given
    data = small_data(tmp_path / "text")
    told = prepare(data, tmp_path / "corpus", joint=joint, **models)
    assert "learning pieces" not in {progress.stage for progress in told}
    manifest = open_corpus(tmp_path / "corpus", verify=True).manifest
    assert manifest.learning.algorithm == "given"
    assert given not in (tmp_path / "corpus" / "manifest.json").read_text()
    assert prepare(data, tmp_path / "corpus", joint=joint, **models)[-1].stage == "up to date"
    assert (manifest.source_vocabulary == 0) is joint


def test_pieces_that_do_not_fit_are_refused_before_all_is_read(given, tmp_path):
    data = small_data(tmp_path / "text")
    greek = pair(tmp_path / "text", "greek", sentences(50, 1), ["Καλημέρα σας"] * 50)
    data = msgspec.structs.replace(data, valid=greek)
    told = prepare_corpus(data, corpus_settings(tmp_path / "corpus", pieces_model=given))
    with pytest.raises(DataError, match=r"target text: \d+.\d % .* unknown, .* Κ α λ") as error:
        next(told)
    assert error.value.where == "corpus.pieces_model"
    assert names(tmp_path) == ["text"]


def test_pieces_that_fit_only_the_held_out_sets_are_refused_at_the_end(given, tmp_path):
    data = small_data(tmp_path / "text")
    source = [f"{line} ж" if n < 150 else line for n, line in enumerate(sentences(400, 1))]
    odd = msgspec.structs.replace(
        data, train=[pair(tmp_path / "text", "odd", source, sentences(400, 2))]
    )
    with pytest.raises(DataError, match=r"source text: 3\.\d % .* unknown, for example ж\n"):
        prepare(odd, tmp_path / "corpus", pieces_model=given)
    assert names(tmp_path) == ["text"]
    # Learnt from the text itself, as many may be unknown.
    prepare(odd, tmp_path / "corpus", character_coverage=0.99)
    assert open_corpus(tmp_path / "corpus").manifest.splits["train"].source_unknown


@pytest.mark.parametrize(
    ("model", "message"),
    [(None, "there is no file"), (b"no model", "not a SentencePiece"), (b"", "is empty")],
)
def test_a_model_of_pieces_that_is_none_is_refused(tmp_path, model, message):
    path = tmp_path / "given.model"
    if model is not None:
        path.write_bytes(model)
    with pytest.raises(DataError, match=message):
        prepare(small_data(tmp_path / "text"), tmp_path / "corpus", pieces_model=str(path))
