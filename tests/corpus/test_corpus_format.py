import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.corpus import BlockWriter, Manifest, open_corpus, seal, write_corpus
from unisono.corpus.layout import PIECES, id_type
from unisono.corpus.manifest import size_of_split
from unisono.errors import DataError
from unisono.text.byte_pieces import BytePieces

PAIRS = [("one", "eins"), ("two words", "zwei Wörter"), ("line\u2028more\rx\x85", "Zeile")]


def small_corpus(path, **splits):
    write_corpus(path, BytePieces(), splits or {"train": PAIRS, "valid": PAIRS[1:]})
    return path


def corpus_of_blocks(path, blocks, vocabulary=1000):
    path.mkdir()
    (path / PIECES).write_bytes(BytePieces.model)
    records = []
    for number, pairs in enumerate(blocks):
        with BlockWriter(path, f"train.{number}", vocabulary) as block:
            for source, target in pairs:
                block.append([source], [target])
        records.append(block.record())
    size = size_of_split(records)
    manifest = Manifest(
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
    train, tokenizer = corpus.split("train"), corpus.tokenizer()
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
        ({"splits": splits}, "agree with itself about train.0"),
        ({"vocabulary": 70000}, "agree with itself about"),
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
    train, tokenizer = corpus.split("train"), corpus.tokenizer()
    sources, targets = train.pairs(range(2))
    assert tokenizer.decode(sources) == ["one", "two words"]
    assert tokenizer.decode(targets) == ["eins", "zwei Wörter"]
    assert corpus.split("valid").source_text() == ["a\u2028b"]
