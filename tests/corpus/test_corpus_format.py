import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.corpus import BlockWriter, Corpus, CorpusManifest, open_corpus, seal, write_corpus
from unisono.corpus.manifest import (
    fingerprinted,
    id_type,
    manifest_bytes,
    read_manifest,
    size_of_split,
)
from unisono.errors import DataError
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers

PAIRS = [("one", "eins"), ("two words", "zwei Wörter"), ("line\u2028more\rx\x85", "Zeile")]


def small_corpus(path, **splits):
    write_corpus(path, BytePieces(), splits or {"train": PAIRS, "valid": PAIRS[1:]})
    return path


def corpus_of_blocks(path, blocks, vocabulary=1000):
    path.mkdir()
    (path / "pieces.model").write_bytes(BytePieces.model)
    records = []
    for number, pairs in enumerate(blocks):
        with BlockWriter(path, f"train.{number}", vocabulary) as block:
            for source, target in pairs:
                block.append([source], [target])
        records.append(block.record())
    size = size_of_split(records)
    manifest = CorpusManifest(
        source_language="en",
        target_language="de",
        vocabulary=vocabulary,
        tokenizer="bytes",
        created_with="test",
        splits={"train": size},
        read_pairs=size.pairs,
    )
    seal(path, manifest)
    return open_corpus(path, verify=True)


def test_text_comes_back_through_ids_and_tokenizer(tmp_path):
    corpus = open_corpus(small_corpus(tmp_path / "c"), verify=True)
    train, tokenizer = corpus.split("train"), corpus.tokenizers().source
    assert len(train) == 3
    sources, targets = train.pairs(np.array([2, 0, 1]))
    assert tokenizer.decode(sources) == [PAIRS[i][0] for i in (2, 0, 1)]
    assert tokenizer.decode(targets) == [PAIRS[i][1] for i in (2, 0, 1)]
    assert train.source_lengths.dtype == train.target_lengths.dtype == np.int32
    assert train.target_lengths.tolist() == [len(t.encode()) for _, t in PAIRS]


def test_original_lines_come_back_whatever_is_in_them(tmp_path):
    valid = open_corpus(small_corpus(tmp_path / "c")).split("valid")
    assert valid.source_text() == [source for source, _ in PAIRS[1:]]
    assert valid.target_text() == [target for _, target in PAIRS[1:]]


sentence = st.lists(st.integers(0, 999), max_size=6)


@given(st.lists(st.lists(st.tuples(sentence, sentence), max_size=4), min_size=1, max_size=4))
def test_pairs_are_numbered_through_all_blocks(tmp_path_factory, blocks):
    path = tmp_path_factory.mktemp("corpora") / "c"
    split = corpus_of_blocks(path, blocks).split("train")
    expected = [pair for block in blocks for pair in block]
    found = [(split.source(i).tolist(), split.target(i).tolist()) for i in range(len(split))]
    assert found == [(list(source), list(target)) for source, target in expected]
    assert split.source_lengths.tolist() == [len(source) for source, _ in expected]
    for outside in (-1, len(expected)):
        with pytest.raises(IndexError):
            split.source(outside)


@pytest.mark.parametrize(("vocabulary", "size"), [(65536, 2), (65537, 4)])
def test_the_largest_id_fits(tmp_path, vocabulary, size):
    split = corpus_of_blocks(
        tmp_path / "c", [[([vocabulary - 1], [0])]], vocabulary=vocabulary
    ).split("train")
    assert split.source(0).tolist() == [vocabulary - 1]
    assert split.source(0).dtype == id_type(vocabulary)
    assert (tmp_path / "c" / "train.0.source.ids").stat().st_size == size


def test_sentences_are_views_that_cannot_be_written(tmp_path):
    split = open_corpus(small_corpus(tmp_path / "c")).split("train")
    assert type(split.source(0)) is np.ndarray
    assert not split.source(0).flags.writeable
    assert not split.source(0).flags.owndata


def test_files_are_little_endian_arrays_as_documented(tmp_path):
    path = small_corpus(tmp_path / "c")
    offsets = np.frombuffer((path / "train.0.target.offsets").read_bytes(), "<i8")
    ids = np.frombuffer((path / "train.0.target.ids").read_bytes(), "<u2")
    expected = BytePieces().encode([target for _, target in PAIRS])
    assert [ids[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)] == expected


def test_the_fingerprint_names_the_content(tmp_path):
    first = open_corpus(small_corpus(tmp_path / "a")).fingerprint
    assert open_corpus(small_corpus(tmp_path / "b")).fingerprint == first
    other = small_corpus(tmp_path / "c", train=PAIRS[:2], valid=PAIRS[1:])
    assert open_corpus(other).fingerprint != first


def test_a_directory_without_manifest_is_not_a_corpus(tmp_path):
    with pytest.raises(DataError, match="not a corpus"):
        open_corpus(tmp_path)
    (small_corpus(tmp_path / "c") / "manifest.json").unlink()
    with pytest.raises(DataError, match="not a corpus"):
        open_corpus(tmp_path / "c")


def test_a_missing_split_is_named(tmp_path):
    corpus = open_corpus(small_corpus(tmp_path / "c"))
    assert corpus.has("valid")
    assert not corpus.has("test")
    with pytest.raises(DataError, match="no test set"):
        corpus.split("test")
    with pytest.raises(DataError, match="original text"):
        corpus.split("train").source_text()


def test_every_missing_or_shortened_file_is_noticed(tmp_path):
    path = small_corpus(tmp_path / "c")
    for file in sorted(path.iterdir()):
        if file.name == "manifest.json":
            continue
        data = file.read_bytes()
        file.write_bytes(data[:-1])
        with pytest.raises(DataError, match=rf"{file.name} is not .* bytes instead of"):
            open_corpus(path)
        file.unlink()
        with pytest.raises(DataError, match=rf"{file.name} is not .* is missing"):
            open_corpus(path)
        file.write_bytes(data)
    assert open_corpus(path)


def test_one_changed_bit_is_noticed_on_verification(tmp_path):
    path = small_corpus(tmp_path / "c")
    for file in sorted(path.iterdir()):
        if file.name == "manifest.json":
            continue
        data = file.read_bytes()
        file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(DataError, match=rf"{file.name} is not .* SHA-256 differs"):
            open_corpus(path, verify=True)
        file.write_bytes(data)


def edited(path, **changes):
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | changes))
    return manifest


def test_a_manifest_that_contradicts_itself_is_refused(tmp_path):
    path = small_corpus(tmp_path / "c")
    original = edited(path)
    splits = json.loads(json.dumps(original["splits"]))
    splits["train"]["blocks"][0]["pairs"] += 1
    files = {k: v for k, v in original["files"].items() if k != "pieces.model"}
    for changes, message in [
        ({"splits": splits}, "contradicts itself about train.0"),
        ({"vocabulary": 70000}, "contradicts itself about"),
        ({"files": files}, "fingerprint"),
        ({"format": 2}, "format 2; this version reads format 1"),
        ({"splits": 3}, "damaged manifest"),
    ]:
        edited(path, **changes)
        with pytest.raises(DataError, match=message):
            open_corpus(path)
        edited(path, **original)


def test_a_torn_manifest_is_refused(tmp_path):
    path = small_corpus(tmp_path / "c") / "manifest.json"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="damaged manifest"):
        open_corpus(tmp_path / "c")


def test_fields_of_a_newer_version_are_passed_over(tmp_path):
    path = small_corpus(tmp_path / "c")
    edited(path, colour="blue")
    assert len(open_corpus(path).split("train")) == 3


def test_a_corpus_of_format_1_can_be_read_for_ever():
    corpus = open_corpus(Path(__file__).parent / "golden" / "format-1", verify=True)
    train, tokenizer = corpus.split("train"), corpus.tokenizers().source
    sources, targets = train.pairs(range(2))
    assert tokenizer.decode(sources) == ["one", "two words"]
    assert tokenizer.decode(targets) == ["eins", "zwei Wörter"]
    assert corpus.split("valid").source_text() == ["a\u2028b"]


def two_vocabularies():
    texts = ["a b c d ab cd"], ["eins zwei drei vier"]
    return Tokenizers(*(learn_pieces(t, size=60, character_coverage=1.0) for t in texts))


def test_each_language_may_have_its_own_pieces(tmp_path):
    both, pairs = two_vocabularies(), [("a b", "eins"), ("c d", "zwei drei")]
    write_corpus(tmp_path / "c", both, {"train": pairs, "valid": pairs[:1]})
    corpus = open_corpus(tmp_path / "c", verify=True)
    tokenizers, train = corpus.tokenizers(), corpus.split("train")
    assert not tokenizers.joint
    sources, targets = train.pairs(range(2))
    assert tokenizers.source.decode(sources) == ["a b", "c d"]
    assert tokenizers.target.decode(targets) == ["eins", "zwei drei"]
    manifest = corpus.manifest
    assert manifest.vocabulary_of("source") == both.source.size != both.target.size
    assert manifest.vocabulary_of("target") == manifest.vocabulary == both.target.size
    names = {path.name for path in (tmp_path / "c").glob("pieces*")}
    assert names == {"pieces.source.model", "pieces.target.model"}


def test_one_tokenizer_for_both_is_one_object_and_one_file(tmp_path):
    write_corpus(tmp_path / "c", BytePieces(), {"train": PAIRS})
    corpus = open_corpus(tmp_path / "c")
    assert corpus.tokenizers().joint
    assert corpus.manifest.source_vocabulary == 0
    assert corpus.manifest.vocabulary_of("source") == BytePieces.size


@pytest.mark.parametrize("file", ["pieces.source.model", "pieces.target.model"])
def test_a_missing_model_of_one_language_is_noticed(tmp_path, file):
    write_corpus(tmp_path / "c", two_vocabularies(), {"train": [("a", "eins")]})
    manifest = read_manifest(tmp_path / "c")
    files = {name: entry for name, entry in manifest.files.items() if name != file}
    changed = fingerprinted(msgspec.structs.replace(manifest, files=files))
    (tmp_path / "c" / "manifest.json").write_bytes(manifest_bytes(changed))
    with pytest.raises(DataError, match=f"about {file}"):
        open_corpus(tmp_path / "c")


@pytest.mark.parametrize(
    ("sizes", "bytes_each"), [((65537, 300), (4, 2)), ((300, 65537), (2, 4))]
)
def test_each_side_has_the_smallest_type_for_its_own_ids(tmp_path, sizes, bytes_each):
    with BlockWriter(tmp_path, "train.0", sizes[1], sizes[0]) as block:
        block.append([[sizes[0] - 1]], [[sizes[1] - 1]])
    for file in two_vocabularies().files:
        (tmp_path / file).write_bytes(b"")
    manifest = CorpusManifest(
        source_language="en",
        target_language="de",
        vocabulary=sizes[1],
        source_vocabulary=sizes[0],
        tokenizer="sentencepiece",
        created_with="test",
        splits={"train": size_of_split([block.record()])},
        read_pairs=1,
    )
    seal(tmp_path, manifest)
    train = open_corpus(tmp_path).split("train")
    assert train.source(0).tolist() == [sizes[0] - 1]
    assert train.target(0).tolist() == [sizes[1] - 1]
    assert (train.source(0).itemsize, train.target(0).itemsize) == bytes_each


@pytest.mark.parametrize("chosen", [{}, {"lowercase": True}, {"plain_quotes": True}])
def test_a_corpus_knows_how_its_text_was_written(tmp_path, chosen):
    corpus = corpus_of_blocks(tmp_path / "c", [[([4], [5])]])
    changed = msgspec.structs.replace(corpus.manifest, settings={"vocabulary": 9, **chosen})
    assert Corpus(corpus.path, changed).normalisation() == Normalisation(**chosen)
