import pytest

from unisono.errors import DataError
from unisono.lock import only_one


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
