from collections import Counter

import numpy as np
import pytest

from support.merging import ladder, probabilities
from unisono.batching.segmentations import Segmentations, splitmix64
from unisono.text.merges import Merges, RaggedRows

PIECES = ladder("▁a", "bc", "▁ab", "▁abc", "abc", "cd", "▁abcd", "▁b")
IDS = {piece.text: i for i, piece in enumerate(PIECES)}
MERGES = Merges(PIECES)


def rows(*lines):
    """Return lines of pieces between spaces as rows."""
    ids = [[IDS[text] for text in line.split()] for line in lines]
    flat = np.array([i for line in ids for i in line], np.uint16)
    return RaggedRows(flat, np.array([len(line) for line in ids], np.int64))


def keys(count, start=0):
    return splitmix64(np.arange(start, start + count, dtype=np.uint64))


def lines_of(found):
    return [" ".join(PIECES[i].text for i in row) for row in found.split()]


LINES = ["▁abcd ▁ab c", "▁b", "▁abc d ▁abcd", "▁a ▁ ▁b d"] * 50


def test_the_text_stays_the_same_and_some_of_its_pieces_do_not():
    found = Segmentations(MERGES, 0.3, seed=1).resegment(rows(*LINES), keys(200))
    resegmented = lines_of(found)
    assert [line.replace(" ", "") for line in resegmented] == [
        line.replace(" ", "") for line in LINES
    ]
    assert 20 < sum(a != b for a, b in zip(resegmented, LINES, strict=True)) < 190
    assert found.ids.dtype == np.uint16


def test_a_word_comes_as_often_in_each_way_as_the_paper_says():
    expected = probabilities(PIECES, tuple("▁abcd"), 0.2)
    found, line = Counter(), rows(*["▁abcd"] * 100)
    for seed in range(150):  # each has few segmentations of its own, all of them have many
        found.update(
            lines_of(Segmentations(MERGES, 0.2, seed).resegment(line, keys(100, 100 * seed)))
        )
    for outcome, probability in expected.items():
        share = found.pop(" ".join(outcome), 0) / 15_000
        assert share == pytest.approx(probability, abs=0.02)
    assert not found


def test_without_dropout_everything_is_as_usual():
    assert lines_of(Segmentations(MERGES, 0.0, 1).resegment(rows(*LINES), keys(200))) == LINES


def test_a_sentence_is_spelled_the_same_in_any_company():
    together = lines_of(Segmentations(MERGES, 0.3, 1).resegment(rows(*LINES), keys(200)))
    segmentations = Segmentations(MERGES, 0.3, 1)
    alone = [
        lines_of(segmentations.resegment(rows(LINES[i]), keys(1, i)))[0]
        for i in reversed(range(len(LINES)))
    ]
    assert together == alone[::-1]


def test_what_is_forgotten_comes_back_the_same():
    roomy, forgetful = (
        Segmentations(MERGES, 0.3, 1),
        Segmentations(MERGES, 0.3, 1, cached=3),
    )
    for start in (0, 500, 0):
        found = [s.resegment(rows(*LINES), keys(200, start)) for s in (roomy, forgetful)]
        assert lines_of(found[0]) == lines_of(found[1])
    assert len(forgetful._cache._old) + len(forgetful._cache._new) < 200
    assert len(forgetful._cache._new) <= 1 < len(roomy._cache._new)


def test_words_of_the_same_pieces_in_another_order_are_not_mixed_up():
    lines = ["▁abc bc d cd", "▁abc d bc cd", "▁abc cd d bc"] * 300
    resegmented = lines_of(Segmentations(MERGES, 0.3, 1).resegment(rows(*lines), keys(900)))
    for one, other in zip(resegmented, lines, strict=True):
        assert one.replace(" ", "") == other.replace(" ", "")


def test_seeds_and_keys_differ():
    found = [
        lines_of(Segmentations(MERGES, 0.3, seed).resegment(rows(*LINES), keys(200, start)))
        for seed, start in ((1, 0), (1, 0), (2, 0), (1, 1000))
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert found[0] != found[3]


def test_empty_rows_stay_empty():
    found = Segmentations(MERGES, 0.3, 1).resegment(
        RaggedRows(rows("▁abcd").ids, np.array([0, 1, 0])), keys(3)
    )
    assert found.lengths[0] == found.lengths[2] == 0
    nothing = RaggedRows(np.empty(0, np.uint16), np.zeros(2, np.int64))
    assert Segmentations(MERGES, 0.3, 1).resegment(nothing, keys(2)).lengths.tolist() == [0, 0]
