"""Files that are written whole, and compared with what a manifest says of them."""

import pytest

from unisono.atomic import Written, difference, written


def test_a_file_is_what_its_manifest_says(tmp_path):
    path = tmp_path / "part"
    path.write_bytes(b"abc")
    expected = written(path)
    assert difference(path, expected) == ""
    path.write_bytes(b"abd")
    assert "SHA-256" in difference(path, expected)
    assert difference(path, expected, content=False) == ""
    path.write_bytes(b"ab")
    assert "2 bytes instead of 3" in difference(path, expected, content=False)
    path.unlink()
    assert difference(path, expected) == "it is missing"


@pytest.mark.parametrize("name", ["n" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_described(tmp_path, name):
    assert difference(tmp_path / name, Written(1, "")) in (
        "it cannot be read: File name too long",
        "it is missing",
    )
