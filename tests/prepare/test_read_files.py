import bz2
import gzip
import hashlib
import lzma

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from unisono import decompress
from unisono.errors import DataError
from unisono.prepare.first_pass import read_files
from unisono.prepare.first_pass.decode import decode_chunk
from unisono.prepare.first_pass.read_files import Chunk, PairReader, TextReader
from unisono.prepare.job import RawPair

ALL = 1 << 40


def in_two_frames(text):
    half, packer = len(text) // 2, zstandard.ZstdCompressor(write_checksum=True)
    return packer.compress(text[:half]) + packer.compress(text[half:])


PACKED = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": in_two_frames,
}


def read(path, lines=1000):
    reader, text = TextReader(path), b""
    reader.fill(lines, ALL)
    while reader.waiting:
        taken = reader.take(min(lines, reader.waiting))
        assert taken.count(b"\n") <= lines
        text += taken
        reader.fill(lines, ALL)
    return text, reader.record()


@pytest.mark.parametrize("suffix", PACKED)
def test_a_file_is_read_counted_and_hashed_in_one_go(tmp_path, suffix):
    text = "".join(f"line {number} ä\n" for number in range(25_000)).encode()
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACKED[suffix](text))
    found, record = read(path)
    assert found == text
    assert record.lines == 25_000
    assert record.text_bytes == len(text)
    assert record.bytes == path.stat().st_size
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("suffix", PACKED)
def test_nothing_packed_is_nothing(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACKED[suffix](b""))
    assert read(path)[0] == b""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", b""),
        (b"\n", b"\n"),
        (b"a", b"a\n"),
        (b"a\nb\n\n", b"a\nb\n\n"),
        (b"a\nb", b"a\nb\n"),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", b"a\n\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbf", b""),
        (b"\xef\n", b"\xef\n"),
    ],
)
def test_every_line_has_an_end_and_no_file_a_mark(tmp_path, text, found):
    path = tmp_path / "text"
    path.write_bytes(text)
    assert read(path)[0] == found
    assert read(path, lines=1)[0] == found


@pytest.fixture(scope="module")
def any_path(tmp_path_factory):
    return tmp_path_factory.mktemp("any") / "text"


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b""))), st.integers(1, 4))
def test_any_text_is_read_as_written_however_the_blocks_fall(any_path, lines, size):
    path, text = any_path, b"".join(line + b"\n" for line in [b"first", *lines])
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_files, "_READ_BYTES", 3)
        patch.setattr(decompress, "BLOCK_BYTES", 2)
        assert read(path, lines=size)[0] == text


def test_a_byte_order_mark_is_found_however_the_blocks_fall(tmp_path, monkeypatch):
    monkeypatch.setattr(decompress, "BLOCK_BYTES", 1)
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfab\n\xef\xbb\xbfc\n")
    assert read(path)[0] == b"ab\n\xef\xbb\xbfc\n"


def test_no_more_is_read_than_asked_for(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a line\n" * 1_000_000)
    reader = TextReader(path)
    reader.fill(10, ALL)
    assert reader.bytes_read <= 1 << 20
    reader.fill(900_000, 2 << 20)
    assert reader.bytes_read <= 3 << 20


def test_what_lies_behind_the_packed_text_is_hashed_too(tmp_path):
    path = tmp_path / "text.xz"
    path.write_bytes(lzma.compress(b"a\n") + b"behind" * 500_000)
    text, record = read(path)
    assert text == b"a\n"
    assert record.bytes == path.stat().st_size
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_damaged_archive_is_refused(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    whole = PACKED[suffix]("".join(f"{n * n}\n" for n in range(9999)).encode())
    broken = whole[:500] + bytes(20) + whole[520:]
    for data in (whole[:-10], whole[: len(whole) // 2], b"plain text\n", broken, b""):
        path.write_bytes(data)
        with pytest.raises(DataError, match="damaged"):
            read(path)


def test_a_file_without_lines_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "text"
    with path.open("wb") as file:
        file.truncate(200 << 20)
    with pytest.raises(DataError, match="a line of more than") as caught:
        read(path)
    assert caught.value.where.endswith("text, line 1")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_what_can_be_read_of_a_cut_off_file_is_counted(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    whole = PACKED[suffix]("".join(f"{n * n}\n" for n in range(9999)).encode())
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(DataError) as caught:
        TextReader(path).fill(1 << 20, ALL)
    assert int(caught.value.where.rpartition(" ")[2]) > 3000


def test_a_damaged_file_is_not_taken_for_another_encoding(tmp_path):
    text = "".join(f"größer {n * n}\n" for n in range(9999)).encode()
    whole = gzip.compress(text)
    for suffix, packed in (("", text), (".gz", whole)):
        files = [tmp_path / f"train.{side}{suffix}" for side in ("en", "de")]
        files[1].write_bytes(packed)
        raw = RawPair("train", "train.0", "here", *files)
        chunk = Chunk(raw, 0, 0, (b"a\n", b"gr\xf6\n"))
        with pytest.raises(DataError, match="is not UTF-8"):
            decode_chunk(chunk, drop_invalid=False)
    files[1].write_bytes(whole[:-2000] + bytes(20) + whole[-1980:])
    with pytest.raises(DataError, match="cannot be read") as caught:
        decode_chunk(chunk, drop_invalid=False)
    assert "damaged" in caught.value.fix


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
    monkeypatch.setattr(read_files, "_BYTES_PER_CHUNK", 4 << 20)
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
