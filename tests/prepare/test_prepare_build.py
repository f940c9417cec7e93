import gzip
import json
import lzma
from itertools import groupby
from pathlib import Path

import msgspec
import pytest
from preparing import (
    SHARED,
    corpus_settings,
    names,
    pair,
    prepare,
    sentences,
    small_data,
    write,
)

from support.normalising import normalise
from unisono.config.settings import Data, TextPair
from unisono.corpus import open_corpus
from unisono.errors import ConfigError, DataError
from unisono.prepare import prepare_corpus


def changed(data, **changes):
    return msgspec.structs.replace(data, **changes)


def text_of(corpus, split):
    pairs, tokenizer = corpus.split(split), corpus.tokenizers().source
    source, target = pairs.pairs(range(len(pairs)))
    return list(zip(tokenizer.decode(source), tokenizer.decode(target), strict=True))


def test_clean_text_comes_back_in_order(tmp_path):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus", verify=True)
    assert text_of(corpus, "train") == list(
        zip(sentences(400, 1), sentences(400, 2), strict=True)
    )
    assert text_of(corpus, "test") == list(zip(sentences(10, 5), sentences(10, 6), strict=True))
    assert corpus.manifest.dropped == {}
    assert names(tmp_path) == ["corpus", "text"]


def test_the_same_text_gives_the_same_corpus_packed_or_not(tmp_path):
    data = small_data(tmp_path / "text")
    packed = []
    for number, (pack, suffix) in enumerate([(gzip.compress, ".gz"), (lzma.compress, ".xz")]):
        path = Path(data.train[0].source if number == 0 else data.train[0].target)
        packed.append(path.with_name(path.name + suffix))
        packed[-1].write_bytes(pack(path.read_bytes()))
    again = msgspec.structs.replace(data.train[0], source=str(packed[0]), target=str(packed[1]))
    prepare(data, tmp_path / "a")
    prepare(changed(data, train=[again]), tmp_path / "b")
    first, second = open_corpus(tmp_path / "a"), open_corpus(tmp_path / "b")
    assert first.fingerprint == second.fingerprint
    assert first.manifest.inputs != second.manifest.inputs


def test_what_is_dropped_is_told_and_the_sums_close(tmp_path):
    data = small_data(tmp_path / "text")
    source, target = sentences(400, 1), sentences(400, 2)
    bad = [
        ("", "leer"),
        ("\u200b \u00ad", "leer"),
        ("gleich", "  gleich\u00a0"),
        (source[0], target[0]),
        (source[1].replace(" ", "\u2003"), f" {target[1]}"),
        (sentences(10, 3)[0], "etwas anderes"),
        ("a", " ".join(target[2:4])),
        (" ".join(source[:40]), " ".join(target[:40])),
    ]
    train = pair(tmp_path, "bad", source + [s for s, _ in bad], target + [t for _, t in bad])
    prepare(changed(data, train=[train]), tmp_path / "corpus")
    manifest = open_corpus(tmp_path / "corpus").manifest
    assert {reason: dropped.count for reason, dropped in manifest.dropped.items()} == {
        "empty": 2,
        "identical": 1,
        "duplicate": 2,
        "overlap with valid/test": 1,
        "length ratio": 1,
        "too long": 1,
    }
    assert manifest.dropped["duplicate"].examples[1] == (source[1], target[1])
    assert manifest.splits["train"].pairs == 400
    assert manifest.read_pairs == 400 + len(bad) + 20
    assert manifest.kept_overlap == 0
    prepare(changed(data, train=[train]), tmp_path / "kept", drop_overlap=False)
    assert open_corpus(tmp_path / "kept").manifest.kept_overlap == 1


def test_held_out_sets_keep_their_original_lines_and_lose_empty_pairs_on_both_sides(tmp_path):
    awkward = ["e\u0301 \u00a0 x\u2028y", "\u200b", "  a\x85b\rc ", "long " * 300, "a"]
    other = ["eins", "zwei", "drei", "vier", ""]
    data = small_data(tmp_path / "text")
    data = changed(data, valid=pair(tmp_path, "awkward", awkward, other))
    prepare(data, tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus")
    valid = corpus.split("valid")
    kept = [awkward[0], awkward[2], awkward[3]]
    assert valid.source_text() == kept
    assert valid.target_text() == ["eins", "drei", "vier"]
    assert len(valid) == 3
    assert corpus.manifest.dropped["empty in valid"].count == 2
    tokenizer = corpus.tokenizers().source
    assert tokenizer.encode([normalise(line) for line in kept]) == [
        valid.source(index).tolist() for index in range(3)
    ]


def test_each_training_entry_is_a_block_and_duplicates_are_found_across_them(tmp_path):
    data = small_data(tmp_path / "text")
    source, target = sentences(50, 1), sentences(50, 2)  # the beginning of the first block
    repeated = pair(tmp_path, "again", source, target)
    more = pair(tmp_path, "more", sentences(30, 7), sentences(30, 8))
    prepare(changed(data, train=[*data.train, repeated, more]), tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus", verify=True)
    blocks = corpus.manifest.splits["train"].blocks
    assert [(b.name, b.pairs) for b in blocks] == [
        ("train.0", 400),
        ("train.1", 0),
        ("train.2", 30),
    ]
    assert text_of(corpus, "train")[400:] == list(
        zip(sentences(30, 7), sentences(30, 8), strict=True)
    )


def test_the_manifest_describes_the_inputs_without_their_directories(tmp_path):
    data = small_data(tmp_path / "text")
    prepare(data, tmp_path / "corpus")
    text = (tmp_path / "corpus" / "manifest.json").read_text()
    assert str(tmp_path) not in text
    manifest = json.loads(text)
    assert [i["split"] for i in manifest["inputs"]] == ["valid", "test", "train"]
    train = manifest["inputs"][2]["source"]
    assert train["name"] == "train.en"
    assert train["lines"] == 400
    assert train["bytes"] == train["text_bytes"] == Path(data.train[0].source).stat().st_size
    assert manifest["settings"]["vocabulary"] == 100
    kept = sum(Path(p).stat().st_size for p in (data.train[0].source, data.train[0].target))
    assert manifest["splits"]["train"]["text_bytes"] == kept


def test_progress_runs_through_the_stages_to_the_end_of_each(tmp_path):
    told = prepare(small_data(tmp_path / "text"), tmp_path / "corpus")
    stages = [(stage, list(group)) for stage, group in groupby(told, lambda p: p.stage)]
    assert [stage for stage, _ in stages] == [
        "reading",
        "reading a sample",
        "learning pieces",
        "encoding",
    ]
    for _, group in stages:
        done = [progress.done for progress in group]
        assert done == sorted(done)
        assert done[-1] == group[-1].total


@pytest.mark.parametrize("joint", [True, False])
def test_pieces_are_learnt_from_a_bounded_even_sample_of_all_sources(tmp_path, joint):
    data = small_data(tmp_path / "text")
    # Of 4,000 pairs every eighth is taken, counted through all sources.
    marks = {"б": 0, "г": 8, "д": 1600, "ж": 1, "л": 7, "ц": 1601}
    source = sentences(4000, 1)
    for mark, place in marks.items():
        source[place] += f" {mark}"
    target = sentences(4000, 2)
    parts = [slice(0, 1001), slice(1001, 1003), slice(1003, 4000)]
    train = [
        pair(tmp_path, f"part{number}", source[part], target[part])
        for number, part in enumerate(parts)
    ]
    path = tmp_path / "corpus"
    prepare(changed(data, train=train), path, joint=joint, learning_lines=1000)
    corpus = open_corpus(path, verify=True)
    pieces = corpus.tokenizers().source
    known = [mark for mark in marks if 1 not in pieces.encode([mark])[0]]
    assert known == ["б", "г", "д"]
    manifest = corpus.manifest
    assert manifest.learning.algorithm == "bpe"
    assert manifest.learning.lines == 1000
    assert manifest.splits["train"].source_unknown == 3
    assert ("pieces.model" in names(path)) is joint
    assert corpus.tokenizers().joint is joint


def decode_chunk(path):
    return [normalise(line) for line in gzip.decompress(path.read_bytes()).decode().split("\n")]


def test_multi30k_is_cleaned_as_by_brute_force(tmp_path):
    folder = SHARED / "multi30k-en-de"
    if not folder.is_dir():
        pytest.skip(f"the shared data is not here: {SHARED}")
    sets = [
        TextPair(source=str(folder / f"{name}.en.gz"), target=str(folder / f"{name}.de.gz"))
        for name in ("train", "val", "test_2016_flickr")
    ]
    prepare(Data(train=sets[:1], valid=sets[1], test=sets[2]), tmp_path / "c", vocabulary=4000)
    corpus = open_corpus(tmp_path / "c", verify=True)
    train, *held_out = (
        list(zip(decode_chunk(Path(s.source)), decode_chunk(Path(s.target)), strict=True))[:-1]
        for s in sets
    )
    secret = {line for pairs in held_out for pair in pairs for line in pair if len(line) >= 30}
    kept = [
        (source, target)
        for source, target in dict.fromkeys(train)
        if source and target and source != target and not {source, target} & secret
    ]
    sides = [corpus.tokenizers().source.encode(side) for side in zip(*kept, strict=True)]
    lengths = [sorted(map(len, ids)) for ids in zip(*sides, strict=True)]
    expected = [
        pair for pair, (a, b) in zip(kept, lengths, strict=True) if b <= min(200, 4 * a)
    ]
    assert text_of(corpus, "train") == expected
    manifest = corpus.manifest
    dropped = sum(d.count for d in manifest.dropped.values())
    assert manifest.read_pairs == sum(s.pairs for s in manifest.splits.values()) + dropped
    assert dropped == 29_000 - len(expected)


def without_validation(data, directory):
    return changed(data, valid=None)


def without_training(data, directory):
    return changed(data, train=[])


def misspelt(data, directory):
    return changed(data, test=type(data.valid)(source=data.valid.source, target="tets.de"))


def unequal(data, directory):
    write(Path(data.train[0].source), sentences(399, 1))
    return data


def empty(data, directory):
    Path(data.train[0].target).write_bytes(b"")
    return data


def latin1(data, directory):
    Path(data.train[0].target).write_bytes("gut\nwäre\n".encode("latin1"))
    return data


def same_language(data, directory):
    train = data.train[0]
    return changed(data, train=[type(train)(source=train.source, target=train.source)])


def only_blank_validation(data, directory):
    return changed(data, valid=pair(directory, "blank", ["", "a"], ["b", ""]))


def training_is_validation(data, directory):
    return changed(data, train=[data.valid])


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (without_validation, ConfigError, r"where: \[data.valid\]"),
        (without_training, ConfigError, r"where: \[\[data.train\]\]"),
        (misspelt, DataError, r"no file tets.de(.|\n)*where: \[data.test\]"),
        (unequal, DataError, "en has 399 lines; .*de has 400 lines"),
        (empty, DataError, "train.de is empty"),
        (latin1, DataError, r"0xe4 is not UTF-8(.|\n)*train.de, line 2"),
        (same_language, DataError, r"no training pairs are left .*identical: 400"),
        (only_blank_validation, DataError, "every pair of the valid set"),
        (training_is_validation, DataError, "overlap with valid/test: 10"),
    ],
)
def test_bad_input_is_explained_and_leaves_nothing(tmp_path, spoil, error, message):
    data = spoil(small_data(tmp_path / "text"), tmp_path / "text")
    with pytest.raises(error, match=message) as caught:
        prepare(data, tmp_path / "corpora" / "corpus")
    assert caught.value.fix
    assert not (tmp_path / "corpora").exists() or names(tmp_path / "corpora") == []


def test_a_missing_file_is_suggested(tmp_path):
    data = small_data(tmp_path / "text")
    (tmp_path / "text" / "test.de").rename(tmp_path / "text" / "test.de.gz")
    with pytest.raises(DataError, match=r"did you mean .*test\.de\.gz"):
        prepare(data, tmp_path / "corpus")
    (tmp_path / "text" / "test.de.gz").unlink()
    with pytest.raises(DataError, match=r"fix:   paths are relative"):
        prepare(data, tmp_path / "corpus")


def test_limits_that_drop_everything_are_told(tmp_path):
    with pytest.raises(DataError, match="too long: 400"):
        prepare(small_data(tmp_path / "text"), tmp_path / "corpus", max_pieces=1)
    assert names(tmp_path) == ["text"]


def test_stopping_in_the_middle_leaves_nothing(tmp_path):
    data = small_data(tmp_path / "text")
    steps = prepare_corpus(data, corpus_settings(tmp_path / "corpus"))
    for progress in steps:
        if progress.stage == "encoding":
            break
    assert len(names(tmp_path)) == 3  # the text, the lock and what is half done
    steps.close()
    assert names(tmp_path) == ["text"]


def test_a_corpus_in_a_place_that_cannot_be_written_is_explained(tmp_path):
    data = small_data(tmp_path / "text")
    with pytest.raises(DataError, match="cannot be written"):
        prepare(data, Path(data.valid.source) / "corpus")


def test_a_training_set_that_is_the_validation_set_is_told_as_such(tmp_path):
    data = small_data(tmp_path / "text")
    same = msgspec.structs.replace(data, train=[data.valid])
    with pytest.raises(DataError, match="overlap with valid/test: 10") as caught:
        prepare(same, tmp_path / "corpus")
    assert "not in [data.valid]" in caught.value.fix


def test_a_missing_file_is_guessed_only_if_it_is_close(tmp_path, monkeypatch):
    data, fixes = small_data(tmp_path / "text"), []
    monkeypatch.chdir(tmp_path)
    for name in ("text/trian.en", "text/other.en", "data/news/train.en"):
        pair = msgspec.structs.replace(data.train[0], source=name)
        with pytest.raises(DataError, match="there is no file") as caught:
            prepare(msgspec.structs.replace(data, train=[pair]), tmp_path / "corpus")
        fixes.append(caught.value.fix)
    assert fixes[0].startswith("did you mean `text/train.en`?")
    assert fixes[1].startswith("paths are relative")
    assert "unisono corpora get news" in fixes[2]
