"""`prepare --like`: new text in the pieces of a model that is there already."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from support.tiny import tiny_settings, write_text
from unisono.bundle.pieces import pieces_of
from unisono.bundle.writer import write_bundle
from unisono.cli.prepare import prepare as prepare_command
from unisono.config.load import to_toml
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError, DataError
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import build_model
from unisono.prepare.build import prepare_corpus
from unisono.text.normalise import Normalisation
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding

SMALL = TransformerSettings(width=16, heads=2, inner=32, encoder_layers=1, decoder_layers=1)


def bundle_with(path, lines, lowercase=False, tags=()):
    pieces = learn_pieces(lines, size=60, character_coverage=1.0, tags=tags)
    write_bundle(
        path,
        model=build_model(SMALL, pieces.size),
        tokenizers=Tokenizers(pieces, pieces),
        normalisation=Normalisation(lowercase=lowercase),
        source_language="en",
        target_language="de",
        decoding=Decoding(),
        max_pieces=40,
        step=1,
        scores={},
    )
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    directory = tmp_path_factory.mktemp("like")
    for name, pairs in (("train", 100), ("valid", 10), ("test", 10)):
        write_text(directory / "text", name, pairs, seed=len(name))
    return directory


def sentences(text):
    return [
        line
        for side in ("en", "de")
        for line in (text / "text" / f"train.{side}").read_text("utf-8").splitlines()
    ]


def settings_for(text, directory, **tables):
    corpus = {"directory": str(directory), **tables.pop("corpus", {})}
    return tiny_settings(text, corpus=corpus, **tables)


def test_the_text_has_the_ids_of_that_model_whatever_the_settings_say(text, tmp_path):
    bundle = bundle_with(tmp_path / "bundle", sentences(text), lowercase=True)
    settings = settings_for(text, tmp_path / "corpus", corpus={"vocabulary": 40})
    list(prepare_corpus(settings.data, settings.corpus, like=pieces_of(bundle)))
    corpus, theirs = open_corpus(tmp_path / "corpus", verify=True), pieces_of(bundle)
    assert corpus.tokenizers().fingerprint == theirs.tokenizers.fingerprint
    assert corpus.normalisation() == theirs.normalisation
    valid = corpus.split("valid")
    wanted = theirs.tokenizers.source.encode(theirs.normalisation(valid.source_text()))
    assert [valid.source(n).tolist() for n in range(len(valid))] == wanted


def test_again_it_is_up_to_date_and_other_pieces_are_refused(text, tmp_path):
    bundle = bundle_with(tmp_path / "bundle", sentences(text))
    other = bundle_with(tmp_path / "other", sentences(text)[:50])
    settings = settings_for(text, tmp_path / "corpus")

    def prepare(like):
        return list(prepare_corpus(settings.data, settings.corpus, like=like))[-1].stage

    prepare(pieces_of(bundle))
    assert prepare(pieces_of(bundle)) == "up to date"
    assert prepare(None) == "up to date"  # the settings do not say how pieces are inherited
    with pytest.raises(ConfigError, match="its pieces are not those of"):
        prepare(pieces_of(other))


def test_a_tag_that_the_pieces_lack_is_refused(text, tmp_path):
    bundle = bundle_with(tmp_path / "bundle", sentences(text), tags=("<BT>",))
    pair = {
        n: str(text / "text" / f"train.{e}") for n, e in (("source", "en"), ("target", "de"))
    }
    data = {"train": [{**pair, "tag": "<XX>"}]}
    settings = settings_for(text, tmp_path / "corpus", data=data)
    with pytest.raises(ConfigError, match="no tag <XX>") as caught:
        list(prepare_corpus(settings.data, settings.corpus, like=pieces_of(bundle)))
    assert "<BT>" in caught.value.fix


@pytest.mark.parametrize("by_option", [True, False])
def test_the_command_takes_them_from_the_option_or_from_start(text, tmp_path, by_option):
    bundle = bundle_with(tmp_path / "bundle", sentences(text))
    start = {} if by_option else {"start": {"from": str(bundle)}}
    settings = settings_for(text, tmp_path / "corpus", **start)
    config = tmp_path / "config.toml"
    config.write_text(to_toml(settings), "utf-8")
    option = ["--like", str(bundle)] if by_option else []
    result = CliRunner().invoke(prepare_command, [str(config), "--workers", "1", *option])
    assert result.exit_code == 0, result.output
    assert "(inherited)" in result.output
    corpus = open_corpus(Path(settings.corpus.directory))
    assert corpus.manifest.learning.algorithm == "like"
    assert corpus.tokenizers().fingerprint == pieces_of(bundle).tokenizers.fingerprint


def test_something_that_is_no_model_is_refused(text, tmp_path):
    (tmp_path / "config.toml").write_text(to_toml(settings_for(text, tmp_path / "c")), "utf-8")
    command = [str(tmp_path / "config.toml"), "--like", str(text)]
    result = CliRunner().invoke(prepare_command, command)
    assert isinstance(result.exception, DataError)
    assert "there is no bundle here" in str(result.exception)
