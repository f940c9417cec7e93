import os

import pytest

from unisono.errors import DataError
from unisono.lock import is_locked, lock, only_one


def held(path):
    return only_one(path, doing=f"making {path.name}", fix="wait")


def test_the_lock_is_for_one_and_free_again_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="inside"), held(tmp_path / "a"):
        raise ValueError("inside")
    with held(tmp_path / "a"):
        with (
            pytest.raises(DataError, match="is making a"),
            held(tmp_path / "a"),
        ):
            pass
        with held(tmp_path / "b"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_ends_when_its_file_is_closed(tmp_path):
    path = tmp_path / "lock"
    assert is_locked(path) is None
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert is_locked(path) is False
    lock(first)
    assert is_locked(path) is True
    with pytest.raises(BlockingIOError):
        lock(second, attempts=2)
    os.close(first)
    lock(second)
    os.close(second)
