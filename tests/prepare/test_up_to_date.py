from pathlib import Path

import msgspec
import pytest
from preparing import content, corpus_settings, names, pair, prepare, sentences, small_data

from unisono.config.settings import TextPair
from unisono.corpus import open_corpus
from unisono.corpus.manifest import fingerprinted, manifest_bytes, read_manifest
from unisono.errors import ConfigError, DataError
from unisono.prepare import prepare_corpus


def replaced(data, **changes):
    return msgspec.structs.replace(data, **changes)


def test_a_corpus_that_is_up_to_date_is_left_alone(tmp_path):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    before = (tmp_path / "corpus").stat()
    told = prepare(data, tmp_path / "corpus", invalid="drop")
    assert told[-1].stage == "up to date"
    assert {progress.stage for progress in told} == {"comparing", "verifying", "up to date"}
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
    return replaced(data, target_language="nl"), {}


def other_filter(data, directory):
    return data, {"drop_wrong_script": False}


def more_before(data, directory):
    more = pair(directory, "more", sentences(20, 8), sentences(20, 9))
    return replaced(data, train=[more, *data.train]), {}


def less_text(data, directory):
    return replaced(data, test=None), {}


def swapped_sets(data, directory):
    return replaced(data, valid=data.test, test=data.valid), {}


def other_columns(data, directory):
    (train,) = data.train
    return replaced(data, train=[TextPair(tsv=train.source, columns=(2, 1))]), {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_text, "train.en has changed since"),
        (other_vocabulary, "vocabulary was 100, now 90"),
        (other_language, "target_language was de, now nl"),
        (other_filter, "drop_wrong_script was true, now false"),
        (more_before, "new sources before the old ones"),
        (less_text, "made with a test set"),
        (swapped_sets, "test.en is not the valid.en"),
        (other_columns, r"the columns of .*train.en were \[\]"),
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


def test_another_model_under_the_same_name_is_noticed(tmp_path):
    data = small_data(tmp_path / "text")
    for seed in (1, 2):
        (tmp_path / f"{seed}").mkdir()
        text = pair(tmp_path / f"{seed}", "t", sentences(90, seed), sentences(90, seed + 5))
        prepare(replaced(data, train=[text]), tmp_path / f"{seed}" / "corpus")
    model = tmp_path / "given.model"
    model.write_bytes((tmp_path / "1" / "corpus" / "pieces.model").read_bytes())
    prepare(data, tmp_path / "corpus", pieces_model=str(model))
    model.write_bytes((tmp_path / "2" / "corpus" / "pieces.model").read_bytes())
    with pytest.raises(ConfigError, match="pieces_model is another file of the same name"):
        prepare(data, tmp_path / "corpus", pieces_model=str(model))


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


@pytest.mark.parametrize("file", ["train.0.source.ids", "valid.0.target.ids", "pieces.model"])
def test_a_flipped_byte_is_noticed_before_anything_else_is_done(tmp_path, file):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    damaged = bytearray((tmp_path / "corpus" / file).read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "corpus" / file).write_bytes(damaged)
    before = content(tmp_path / "corpus")
    for train in (data.train, [*data.train, third(tmp_path)]):
        with pytest.raises(DataError, match=f"{file} is not the file this corpus") as caught:
            prepare(replaced(data, train=train), tmp_path / "corpus")
        assert caught.value.where.endswith(file)
        assert "prepare the corpus again" in caught.value.fix
    assert content(tmp_path / "corpus") == before


@pytest.fixture
def home(tmp_path):
    """A corpus of two sources, and what it needs to have a third."""
    data = small_data(tmp_path / "text")
    two = pair(tmp_path / "text", "two", sentences(30, 11), sentences(30, 12), weight=0.5)
    data = replaced(data, train=[*data.train, two])
    prepare(data, tmp_path / "corpus")
    return tmp_path, data


def third(home, **settings):
    """A source with 50 new pairs, a pair of each older source and one of the valid set."""
    source = [*sentences(50, 21), sentences(3, 1)[2], sentences(3, 11)[1], sentences(1, 3)[0]]
    target = [*sentences(50, 22), sentences(3, 2)[2], sentences(3, 12)[1], "etwas anderes"]
    return pair(home / "text", "three", source, target, **settings)


def text_of(corpus, split="train"):
    pairs, pieces = corpus.split(split), corpus.tokenizers()
    source, target = pairs.pairs(range(len(pairs)))
    return list(zip(pieces.source.decode(source), pieces.target.decode(target), strict=True))


def test_a_source_is_added_and_what_was_there_stays(home):
    path, data = home
    before, old = content(path / "corpus"), open_corpus(path / "corpus")
    mapped = old.split("train")
    data = replaced(data, train=[*data.train, third(path, weight=3.0)])
    told = prepare(data, path / "corpus")
    assert [p.stage for p in told][-1] == "added"
    assert (told[-1].done, told[-1].total) == (1, 3)
    assert "learning pieces" not in {p.stage for p in told}
    after, corpus = content(path / "corpus"), open_corpus(path / "corpus", verify=True)
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: data for name, data in before.items() if name != "manifest.json"
    }
    new = list(zip(sentences(50, 21), sentences(50, 22), strict=True))
    assert text_of(corpus) == text_of(old) + new
    assert len(mapped) == 430  # which a training that runs has still in its hands
    manifest = corpus.manifest
    assert [b.pairs for b in manifest.splits["train"].blocks] == [400, 30, 50]
    assert [b.weight for b in manifest.splits["train"].blocks] == [1.0, 0.5, 3.0]
    assert {r: d.count for r, d in manifest.dropped.items()} == {
        "overlap with valid/test": 1,
        "duplicate": 2,
    }
    dropped = sum(d.count for d in manifest.dropped.values())
    assert manifest.read_pairs == sum(s.pairs for s in manifest.splits.values()) + dropped
    assert corpus.fingerprint != old.fingerprint
    assert prepare(data, path / "corpus")[-1].stage == "up to date"


@pytest.mark.parametrize(("known", "sum_of_both"), [(2, 3), (-1, -1)])
def test_kept_overlap_is_added_up_if_it_was_counted(home, known, sum_of_both):
    _, data = home
    path = home[0] / "kept"
    prepare(data, path, drop_overlap=False)
    manifest = open_corpus(path).manifest
    assert manifest.kept_overlap == 0
    changed = replaced(manifest, kept_overlap=known)
    (path / "manifest.json").write_bytes(manifest_bytes(changed))
    data = replaced(data, train=[*data.train, third(home[0])])
    prepare(data, path, drop_overlap=False)
    assert open_corpus(path).manifest.kept_overlap == sum_of_both


def test_sources_in_another_order_and_sources_that_are_gone_are_told_as_such(home):
    path, data = home
    with pytest.raises(ConfigError, match="the same sources in another order"):
        prepare(replaced(data, train=data.train[::-1]), path / "corpus")
    with pytest.raises(ConfigError, match="made from 2 sources, now there is 1"):
        prepare(replaced(data, train=data.train[:1]), path / "corpus")


def test_an_added_source_is_encoded_as_if_it_had_been_there(home):
    path, data = home
    model = path / "pieces.model"
    model.write_bytes((path / "corpus" / "pieces.model").read_bytes())
    whole = replaced(data, train=[*data.train, third(path)])
    prepare(whole, path / "corpus")
    prepare(whole, path / "at-once", pieces_model=str(model))
    added, at_once = content(path / "corpus"), content(path / "at-once")
    del added["manifest.json"], at_once["manifest.json"]
    assert added == at_once


def test_stopped_in_the_middle_of_adding_the_corpus_is_as_it_was(home):
    path, data = home
    before = content(path / "corpus")
    whole = replaced(data, train=[*data.train, third(path)])
    for stage in ("reading", "encoding"):
        steps = prepare_corpus(whole, corpus_settings(path / "corpus"))
        assert any(progress.stage == stage for progress in steps)
        steps.close()
        assert content(path / "corpus") == before


def test_what_a_killed_addition_left_is_removed(home):
    path, data = home
    before = content(path / "corpus")
    (path / "corpus" / ".tmp-added-77" / "clean").mkdir(parents=True)
    for name in ("train.2.source.ids", "train.2.hashes", "notes.txt"):
        (path / "corpus" / name).write_text("left")
    assert open_corpus(path / "corpus", verify=True)
    assert prepare(data, path / "corpus")[-1].stage == "up to date"
    assert content(path / "corpus") == before | {"notes.txt": b"left"}


def test_a_source_that_the_pieces_do_not_fit_is_refused_and_the_corpus_kept(home):
    path, data = home
    before = content(path / "corpus")
    greek = pair(path / "text", "greek", sentences(50, 31), ["und größer Wörter Κα"] * 50)
    train = [*data.train, greek]
    with pytest.raises(DataError, match="pieces do not fit the target text") as caught:
        prepare(replaced(data, train=train), path / "corpus")
    assert "another corpus.directory" in caught.value.fix
    assert content(path / "corpus") == before


def test_a_changed_weight_rewrites_the_manifest_only(home):
    path, data = home
    before, fingerprint = content(path / "corpus"), open_corpus(path / "corpus").fingerprint
    first, second = data.train
    first, second = replaced(first, weight=2.0), replaced(second, weight=1.5)
    told = prepare(replaced(data, train=[first, second]), path / "corpus")
    assert told[-1].stage == "weights changed"
    after, manifest = content(path / "corpus"), open_corpus(path / "corpus").manifest
    assert [block.weight for block in manifest.splits["train"].blocks] == [2.0, 1.5]
    assert manifest.fingerprint != fingerprint
    assert before.pop("manifest.json") != after.pop("manifest.json")
    assert before == after


def test_a_corpus_without_hashes_cannot_be_added_to(home):
    path, data = home
    file = path / "corpus" / "manifest.json"
    manifest = read_manifest(path / "corpus")
    files = {n: f for n, f in manifest.files.items() if not n.endswith(".hashes")}
    for hashes in (path / "corpus").glob("*.hashes"):
        hashes.unlink()
    file.write_bytes(manifest_bytes(fingerprinted(replaced(manifest, files=files))))
    assert prepare(data, path / "corpus")[-1].stage == "up to date"
    with pytest.raises(ConfigError, match="could not extend a corpus"):
        prepare(replaced(data, train=[*data.train, third(path)]), path / "corpus")
