from errno import ENOSPC
from pathlib import Path

import pytest

from unisono.datasets.builtin.generate import generate
from unisono.datasets.builtin.write import write_builtin
from unisono.errors import DataError

SIZES = {"train": 300, "valid": 20, "test": 30}


def test_six_files_of_parallel_lines(tmp_path):
    write_builtin(tmp_path / "corpus", seed=5, **SIZES)
    splits = generate(seed=5, **SIZES)
    for name, size in SIZES.items():
        english = (tmp_path / "corpus" / f"{name}.en").read_bytes().decode().split("\n")
        german = (tmp_path / "corpus" / f"{name}.de").read_bytes().decode().split("\n")
        assert len(english) == len(german) == size + 1
        pairs = getattr(splits, name)
        assert english == [*(pair.source for pair in pairs), ""]
        assert german == [*(pair.target for pair in pairs), ""]
    assert len(list((tmp_path / "corpus").iterdir())) == 6 + len(["lock.json", "data.toml"])


def test_writing_twice_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        write_builtin(tmp_path / name, seed=5, **SIZES)
    for path in (tmp_path / "one").glob("*.[ed][ne]"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    write_text = Path.write_text

    def write_until_full(path, *arguments, **options):
        if path.name == "test.de":
            raise OSError(ENOSPC, "No space left on device")
        return write_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", write_until_full)
    with pytest.raises(OSError, match="No space"):
        write_builtin(tmp_path / "corpus", seed=5, **SIZES)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="holds other files: thesis"):
        write_builtin(tmp_path, seed=5, **SIZES)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_directory_will_do(tmp_path):
    (tmp_path / "corpus").mkdir()
    write_builtin(tmp_path / "corpus", seed=5, **SIZES)
    assert (tmp_path / "corpus" / "test.de").exists()


def test_what_is_there_is_verified(tmp_path):
    assert write_builtin(tmp_path, seed=5, **SIZES)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert not write_builtin(tmp_path, seed=5, **SIZES)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    (tmp_path / "data.toml").unlink()
    assert not write_builtin(tmp_path, seed=5, **SIZES)
    assert str(tmp_path / "train.en") in (tmp_path / "data.toml").read_text()
    (tmp_path / "test.de").write_text("Mein eigener Satz.\n")
    with pytest.raises(DataError, match=r"have changed .*\n +test\.de: it has 19 bytes"):
        write_builtin(tmp_path, seed=5, **SIZES)


@pytest.mark.parametrize("change", [{"seed": 6}, {"train": 301}])
def test_another_corpus_is_not_passed_off_as_this_one(tmp_path, change):
    write_builtin(tmp_path, **{"seed": 5, **SIZES})
    with pytest.raises(DataError, match=r"train\.en: 300 pairs, seed 5"):
        write_builtin(tmp_path, **{"seed": 5, **SIZES, **change})


def test_a_lost_lock_is_named(tmp_path):
    write_builtin(tmp_path, seed=5, **SIZES)
    (tmp_path / "lock.json").unlink()
    with pytest.raises(DataError, match=r"lock\.json is missing"):
        write_builtin(tmp_path, seed=5, **SIZES)
