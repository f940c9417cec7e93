import pytest

from unisono.prepare.spool import Spool

SOURCE = [f"s{number}" for number in range(7)]
TARGET = [f"t{number} ä" for number in range(7)]


@pytest.fixture
def spool(tmp_path):
    with Spool(tmp_path, "train.0") as spool:
        spool.append(SOURCE[:3], TARGET[:3])
        spool.append([], [])
        spool.append(SOURCE[3:], TARGET[3:])
    return spool


def test_pairs_come_back_in_batches(spool):
    batches = list(spool.batches(3))
    assert [len(source) for source, _ in batches] == [3, 3, 1]
    assert [line for source, _ in batches for line in source] == SOURCE
    assert [line for _, target in batches for line in target] == TARGET
    assert spool.pairs == 7


def test_a_sample_takes_every_nth_pair(spool):
    assert list(spool.lines(3)) == ["s0", "t0 ä", "s3", "t3 ä", "s6", "t6 ä"]
