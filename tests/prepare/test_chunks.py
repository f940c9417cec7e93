import pytest

from unisono.errors import DataError
from unisono.prepare.first_pass import chunks
from unisono.prepare.first_pass.chunks import PairReader
from unisono.prepare.inputs import RawPair


def pair_of(source, target, columns=None):
    where = "[[data.train]] number 1"
    return PairReader(RawPair("train", "train.0", where, source, target, columns))


def write(directory, source, target):
    (directory / "a.en").write_bytes(source)
    (directory / "a.de").write_bytes(target)
    return directory / "a.en", directory / "a.de"


def test_both_sides_stay_in_step(tmp_path):
    lines = [f"{number} {'x' * (number % 7)}\n".encode() for number in range(1000)]
    other = [f"{number}\n".encode() for number in range(1000)]
    reader = pair_of(*write(tmp_path, b"".join(lines), b"".join(other)))
    found = list(reader.chunks(lines=300))
    assert [chunk.first_line for chunk in found] == [0, 300, 600, 900]
    assert [chunk.number for chunk in found] == [0, 1, 2, 3]
    for chunk in found:
        part = slice(chunk.first_line, chunk.first_line + 300)
        assert chunk.text == (b"".join(lines[part]), b"".join(other[part]))


def test_long_lines_make_smaller_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "_BYTES_PER_CHUNK", 4 << 20)
    long = b"y" * (1 << 20) + b"\n"
    reader = pair_of(*write(tmp_path, b"x\n" * 20, long * 20))
    found = list(reader.chunks())
    assert b"".join(chunk.text[1] for chunk in found) == long * 20
    assert all(chunk.text[0].count(b"\n") == chunk.text[1].count(b"\n") for chunk in found)
    assert max(len(chunk.text[1]) for chunk in found) < 6 << 20


def test_a_file_of_columns_is_read_once_and_its_bytes_count_once(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"0.9\tone\teins\n0.8\ttwo\tzwei\n")
    reader = pair_of(path, path, (2, 3))
    (chunk,) = reader.chunks()
    assert chunk.text == (path.read_bytes(),)
    record = reader.record()
    assert record.columns == [2, 3]
    assert (record.source.lines, record.target.lines) == (2, 2)
    assert (record.source.bytes, record.target.bytes) == (path.stat().st_size, 0)
    assert record.source.sha256 == record.target.sha256


def test_unequal_files_are_refused_with_both_counts(tmp_path):
    for count in (3, 29_999, 30_001, 70_000):
        reader = pair_of(*write(tmp_path, b"x\n" * 30_000, b"y\n" * count))
        with pytest.raises(DataError, match=rf"en has 30000 lines; .*de has {count} lines"):
            list(reader.chunks())


@pytest.mark.parametrize(("source", "target"), [(b"", b"x\n"), (b"x\n", b""), (b"", b"")])
def test_an_empty_file_is_named(tmp_path, source, target):
    empty = "de" if source else "en"
    with pytest.raises(DataError, match=rf"a\.{empty} is empty"):
        list(pair_of(*write(tmp_path, source, target)).chunks())
