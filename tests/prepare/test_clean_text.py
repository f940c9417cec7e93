import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unisono.prepare.first_pass.clean_text import first_occurrences, write_chunk

SOURCE = [f"s{number}" for number in range(7)]
TARGET = [f"t{number} ä\u2028x" for number in range(7)]


def test_pairs_come_back(tmp_path):
    text = write_chunk(tmp_path / "chunk", SOURCE, TARGET)
    assert text.keep.tolist() == [True] * 7
    assert text.read() == (SOURCE, TARGET)


def test_nothing_comes_back_as_nothing(tmp_path):
    assert write_chunk(tmp_path / "chunk", [], []).read() == ([], [])


@given(st.lists(st.one_of(st.integers(0, 40), st.integers(2**64 - 40, 2**64 - 1))))
def test_the_first_of_equals_is_found_as_by_brute_force(hashes):
    expected = [value not in hashes[:index] for index, value in enumerate(hashes)]
    assert first_occurrences(np.array(hashes, np.uint64)).tolist() == expected
