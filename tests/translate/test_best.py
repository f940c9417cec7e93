"""Our `topk` against torch's."""

import pytest
import torch

from unisono.translate.ensemble import best_per_row


@pytest.mark.parametrize("columns", [5, 63, 640, 2000, 8000])
@pytest.mark.parametrize("count", [1, 5])
def test_it_is_what_torch_finds(columns, count):
    values = torch.randn(7, columns, generator=torch.Generator().manual_seed(columns))
    best, where = best_per_row(values, count)
    expected = values.topk(count)
    assert torch.equal(best, expected.values)
    assert torch.equal(where, expected.indices)


@pytest.mark.parametrize("first", [0, 62, 1983, 1996])
def test_neighbours_and_the_columns_after_the_last_group_are_found(first):
    values = torch.zeros(1, 2000)
    values[0, first : first + 4] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    where = best_per_row(values, 4)[1]
    assert where.tolist() == [[first + 3, first + 2, first + 1, first]]
