import pytest

from unisono.corpora.builtin.generate import Splits, generate


@pytest.fixture(scope="session")
def builtin() -> Splits:
    """The corpus in its full size, generated once for all tests."""
    return generate(seed=1, train=200_000, valid=1_000, test=1_000)
