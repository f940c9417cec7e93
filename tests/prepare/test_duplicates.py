import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unisono.prepare.first_pass.duplicates import first_occurrences


@given(st.lists(st.one_of(st.integers(0, 40), st.integers(2**64 - 40, 2**64 - 1))))
def test_the_first_of_equals_is_found_as_by_brute_force(hashes):
    expected = [value not in hashes[:index] for index, value in enumerate(hashes)]
    assert first_occurrences(np.array(hashes, np.uint64)).tolist() == expected
