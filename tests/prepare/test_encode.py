import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.config.settings import CorpusSettings
from unisono.prepare.second_pass.encode import LengthFilter, LineEncoder
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.sentence_pieces import learn_pieces

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
LINES = [f"the {n} cats, “saw” größer {n * n} dogs!" for n in range(300)]
PIECES = learn_pieces(LINES, size=120, character_coverage=1.0)


def decoded(encoder, lines):
    return [encoder.ids(data).tolist() for data in encoder.encode(lines)]


def test_multi30k_is_encoded_word_by_word_as_line_by_line():
    folder = SHARED / "multi30k-en-de"
    if not folder.is_dir():
        pytest.skip(f"the shared data is not here: {SHARED}")
    text = [
        gzip.decompress((folder / f"train.{side}.gz").read_bytes()) for side in ("en", "de")
    ]
    lines = Normalisation()(
        [line for part in text for line in part.decode().split("\n")[:9000]]
    )
    lines = [line for line in lines if line]
    pieces = learn_pieces(lines[::5], size=2000, character_coverage=0.999)
    assert pieces.encodes_words_alone
    assert decoded(LineEncoder(pieces, cached_words=1500), lines) == pieces.encode(lines)


@given(st.lists(st.text(min_size=1)))
def test_any_text_is_encoded_word_by_word_as_line_by_line(lines):
    assert PIECES.encodes_words_alone
    clean = [line for line in Normalisation()([t.replace("\n", " ") for t in lines]) if line]
    assert decoded(LineEncoder(PIECES), clean) == PIECES.encode(clean)


def test_memory_is_bounded_and_forgetting_changes_nothing():
    encoder = LineEncoder(PIECES, cached_words=20)
    for start in range(0, len(LINES), 3):
        assert decoded(encoder, LINES[start : start + 3]) == PIECES.encode(
            LINES[start : start + 3]
        )
        assert len(encoder._cache) <= 20


def test_a_tokenizer_that_looks_at_whole_lines_is_asked_for_them():
    unigram = learn_pieces(LINES, size=60, character_coverage=1.0, pieces="unigram")
    assert not unigram.encodes_words_alone
    assert decoded(LineEncoder(unigram), LINES) == unigram.encode(LINES)
    assert decoded(LineEncoder(BytePieces()), LINES) == BytePieces().encode(LINES)
    assert LineEncoder(unigram).encode([]) == []


def test_ids_beyond_two_bytes_are_packed_in_four():
    class Large(BytePieces):
        size = 70_000

        def encode(self, lines):
            return [[69_999] * len(line) for line in lines]

    encoder = LineEncoder(Large())
    assert encoder.bytes_per_id == 4
    assert decoded(encoder, ["abc"]) == [[69_999] * 3]
    assert encoder.ids(encoder.encode(["a"])[0]).dtype == np.dtype("<u4")


def test_unknown_characters_are_told():
    encoder = LineEncoder(PIECES)
    assert [c for c in "the ж “ö”" if not encoder.knows(c)] == ["ж"]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (10, 10, ""),
        (11, 10, "too long"),
        (10, 11, "too long"),
        (8, 2, ""),
        (9, 2, "length ratio"),
        (2, 9, "length ratio"),
        (40, 1, "too long"),
    ],
)
def test_limits_are_the_last_lengths_allowed(source, target, reason):
    limits = LengthFilter(CorpusSettings(directory="x", max_pieces=10, max_length_ratio=4.0))
    assert limits.reason(source, target) == reason


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1))
def test_many_pairs_at_once_are_judged_like_one_by_one(lengths):
    settings = CorpusSettings(directory="x", max_pieces=20, max_length_ratio=2.5)
    limits = LengthFilter(settings)
    kept = limits.kept(*np.array(lengths).T)
    assert kept.tolist() == [not limits.reason(s, t) for s, t in lengths]
