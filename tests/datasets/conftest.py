import pytest

from datasets.getting import files, table
from datasets.serving import serving
from unisono.datasets.builtin.generate import Splits, generate
from unisono.datasets.entry import to_entry


@pytest.fixture(scope="session")
def builtin() -> Splits:
    """The corpus in its full size, generated once for all tests."""
    return generate(seed=1, train=200_000, valid=1_000, test=1_000)


@pytest.fixture
def site():
    with serving(files()) as site:
        yield site


@pytest.fixture
def entry(site):
    return to_entry(table(site), where="test")
