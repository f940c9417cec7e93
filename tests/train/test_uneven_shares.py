import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.batching.settings import Budget
from unisono.train.preconditions import uneven_shares


@pytest.mark.parametrize(("processes", "even"), [(1, True), (2, True), (4, True), (3, False)])
def test_shares_that_are_not_equal_are_told(processes, even):
    assert (uneven_shares(Budget(4096, 1024), processes) == "") == even


def test_processes_without_work_are_counted():
    told = uneven_shares(Budget(4096, 1024), 6)
    assert told.startswith("an update has 4 micro-batches for 6 processes, so 2 have nothing")
    assert told.endswith("`batching.tokens_per_micro_batch = 682`")


def test_one_more_than_a_multiple_is_no_matter_if_there_are_many():
    assert uneven_shares(Budget(900, 100), 2) == ""  # 5 and 4


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(1, 64))
def test_what_is_advised_is_even(update, micro_batch, processes):
    told = uneven_shares(Budget(update, min(micro_batch, update)), processes)
    if told and update >= 100 * processes * 64:
        advised = int(told.rpartition("= ")[2].strip("`"))
        assert uneven_shares(Budget(update, advised), processes) == ""
