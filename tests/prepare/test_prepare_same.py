import msgspec
import numpy as np
import pytest
from preparing import content, pair, prepare, sentences, small_data, write

from unisono.config.settings import TextPair
from unisono.corpus import open_corpus
from unisono.prepare import build
from unisono.prepare.first_pass import read_files
from unisono.prepare.first_pass.clean_text import hashes_of


def varied_data(directory):
    """Text with every kind of trouble that is dropped, in three sources."""
    data = small_data(directory)
    source, target = sentences(400, 1), sentences(400, 2)
    for place, text in {7: "", 90: "да, конечно", 91: "нет", 300: "x" * 5}.items():
        source[place] = text
    for place in (20, 130, 140, 333):
        source[place], target[place] = source[3], target[3]
    target[60] = source[60]
    target[200] = " ".join(target[:50])
    rows = [f"{s}\t-\t{t}" for s, t in zip(sentences(99, 7), sentences(99, 8), strict=True)]
    rows[50] = "only one column"
    table = write(directory / "table.tsv", rows)
    bad = write(directory / "bad.de", target[:80])
    bad.write_bytes(bad.read_bytes().replace("größer".encode(), b"gr\xf6\xdfer", 3))
    good = str(write(directory / "good.en", sentences(80, 9)))
    return msgspec.structs.replace(
        data,
        train=[
            pair(directory, "first", source, target),
            TextPair(tsv=str(table), columns=(1, 3), weight=2.5),
            TextPair(source=good, target=str(bad)),
        ],
    )


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    home = tmp_path_factory.mktemp("varied")
    data = varied_data(home / "text")
    prepare(data, home / "corpus", invalid="drop", max_pieces=100)
    return data, home / "corpus"


def test_every_reason_is_counted_with_examples(varied):
    manifest = open_corpus(varied[1], verify=True).manifest
    counts = {reason: drop.count for reason, drop in manifest.dropped.items()}
    assert counts == {
        "invalid UTF-8": counts["invalid UTF-8"],
        "too few columns": 1,
        "empty": 1,
        "identical": 1,
        "wrong script": 2,
        "duplicate": 4,
        "too long": 1,
        "length ratio": 1,
    }
    assert 1 <= counts["invalid UTF-8"] <= 3
    assert "gr\ufffd\ufffder" in manifest.dropped["invalid UTF-8"].examples[0][1]
    assert manifest.dropped["too few columns"].examples == [("only one column", "")]
    first = (sentences(400, 1)[3], sentences(400, 2)[3])
    assert manifest.dropped["duplicate"].examples == [first] * 3
    assert sum(counts.values()) + manifest.splits["train"].pairs + 20 == manifest.read_pairs


def text_of(corpus):
    split, pieces = corpus.split("train"), corpus.tokenizers()
    source, target = split.pairs(range(len(split)))
    return list(zip(pieces.source.decode(source), pieces.target.decode(target), strict=True))


def test_the_manifest_answers_what_show_asks(varied):
    corpus = open_corpus(varied[1])
    manifest, split = corpus.manifest, corpus.split("train")
    train = manifest.splits["train"]
    assert [block.weight for block in train.blocks] == [1.0, 2.5, 1.0]
    assert [block.read_pairs for block in train.blocks] == [400, 99, 80]
    assert [block.pairs for block in train.blocks][:2] == [390, 98]
    assert manifest.inputs[3].columns == [1, 3]
    for lengths, counts in (
        (split.source_lengths, train.source_lengths),
        (split.target_lengths, train.target_lengths),
    ):
        expected = [sum((n - 1) // 10 == k for n in lengths) for k in range(len(counts))]
        assert counts == expected
        assert sum(counts) == train.pairs
    assert manifest.first_pairs == text_of(corpus)[:3]
    hashes = [np.fromfile(varied[1] / f"train.{n}.hashes", "<u8") for n in range(3)]
    assert [len(part) for part in hashes] == [block.pairs for block in train.blocks]
    expected = hashes_of(*map(list, zip(*text_of(corpus), strict=True)))
    assert np.array_equal(np.concatenate(hashes), expected)
    assert manifest.learning.lines == 2 * (train.pairs + 2)  # two go by their lengths later


@pytest.mark.parametrize("lines", [1, 7, 100])
def test_the_size_of_chunks_changes_nothing(varied, tmp_path, monkeypatch, lines):
    data, path = varied
    monkeypatch.setattr(read_files, "LINES_PER_CHUNK", lines)
    prepare(data, tmp_path / "corpus", invalid="drop", max_pieces=100)
    assert content(tmp_path / "corpus") == content(path)


@pytest.mark.ranks
@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_nothing(varied, tmp_path, monkeypatch, workers):
    data, path = varied
    monkeypatch.setattr(read_files, "LINES_PER_CHUNK", 30)
    monkeypatch.setattr(build, "_SMALL_BYTES", 0)
    told = prepare(data, tmp_path / "corpus", workers=workers, invalid="drop", max_pieces=100)
    assert content(tmp_path / "corpus") == content(path)
    assert told[-1].done == told[-1].total
