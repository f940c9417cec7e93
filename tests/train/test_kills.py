"""kill -9 at any moment: the run continues by itself and ends in the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ranks]

TESTS = Path(__file__).parents[1]


def crash(home, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "support.crash", str(home), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def home(corpus_home, tmp_path):
    (tmp_path / "corpus").symlink_to(corpus_home / "corpus")
    return tmp_path


def test_forty_random_kills_end_in_the_same_bits(home):
    found = crash(home, "random", 40, 8, 1)
    assert found["kills"] == 40
    assert found["identical"] == found["runs"] > 0
    assert found["during_saves"] > 0  # otherwise the saves were not put to the test


@pytest.mark.parametrize(
    ("save", "stride"),
    [
        pytest.param(1, 4, id="the first save"),
        pytest.param(3, 2, id="a save that prunes", marks=pytest.mark.long(minutes=1)),
    ],
)
def test_a_kill_at_io_calls_all_through_a_save_ends_in_the_same_bits(home, save, stride):
    """Every second call, or fourth: neighbours leave the same files behind, or nearly."""
    found = crash(home, "every", save, stride)
    assert found["calls"] > 20 / stride
    assert found["identical"] == found["calls"]
    assert found["sound"] == found["calls"]
