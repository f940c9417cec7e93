import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.config.settings import CorpusSettings
from unisono.prepare.second_pass.encode_chunk import LengthFilter


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
