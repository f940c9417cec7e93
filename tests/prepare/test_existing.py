from pathlib import Path

import msgspec
import pytest
from preparing import names, pair, prepare, sentences, small_data

from unisono.corpus import open_corpus
from unisono.errors import ConfigError, DataError


def test_a_corpus_that_is_up_to_date_is_left_alone(tmp_path):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    before = (tmp_path / "corpus").stat()
    told = prepare(data, tmp_path / "corpus")
    assert told[-1].stage == "up to date"
    assert {progress.stage for progress in told} == {"comparing", "up to date"}
    assert (tmp_path / "corpus").stat().st_mtime_ns == before.st_mtime_ns


def test_a_corpus_that_was_moved_is_still_up_to_date(tmp_path):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    (tmp_path / "corpus").rename(tmp_path / "moved")
    assert prepare(data, tmp_path / "moved")[-1].stage == "up to date"


def other_text(data, directory):
    file = Path(data.train[0].source)
    file.write_bytes(file.read_bytes().replace(b"cat", b"cow", 1))
    return data, {}


def other_vocabulary(data, directory):
    return data, {"vocabulary": 90}


def other_language(data, directory):
    return msgspec.structs.replace(data, target_language="nl"), {}


def more_text(data, directory):
    more = pair(directory, "more", sentences(20, 8), sentences(20, 9))
    return msgspec.structs.replace(data, train=[*data.train, more]), {}


def swapped_sets(data, directory):
    return msgspec.structs.replace(data, valid=data.test, test=data.valid), {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_text, "train.en is not the train.en it was made from"),
        (other_vocabulary, "vocabulary was 100, now 90"),
        (other_language, "target_language was de, now nl"),
        (more_text, "made from 6 files, now there are 8"),
        (swapped_sets, "test.en is not the valid.en"),
    ],
)
def test_a_corpus_made_otherwise_is_refused_and_kept(tmp_path, change, message):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    fingerprint = open_corpus(tmp_path / "corpus").fingerprint
    data, settings = change(data, tmp_path / "text")
    with pytest.raises(ConfigError, match=message):
        prepare(data, tmp_path / "corpus", **settings)
    assert open_corpus(tmp_path / "corpus", verify=True).fingerprint == fingerprint
    assert names(tmp_path) == ["corpus", "text"]


def test_something_else_in_the_place_is_kept(tmp_path):
    data = small_data(tmp_path / "text")
    with pytest.raises(ConfigError, match="not a corpus"):
        prepare(data, tmp_path / "text")
    assert Path(data.valid.source).is_file()


def test_an_empty_directory_is_free_to_use(tmp_path):
    (tmp_path / "corpus").mkdir()
    prepare(small_data(tmp_path / "text"), tmp_path / "corpus")
    assert open_corpus(tmp_path / "corpus")


def test_a_damaged_corpus_is_not_called_up_to_date(tmp_path):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    (tmp_path / "corpus" / "train.0.source.ids").write_bytes(b"")
    with pytest.raises(DataError, match=r"train.0.source.ids is not .* has 0 bytes"):
        prepare(data, tmp_path / "corpus")
