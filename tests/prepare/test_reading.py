import gzip
import hashlib
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import DataError
from unisono.prepare import reading
from unisono.prepare.inputs import RawPair
from unisono.prepare.reading import LINES_PER_BATCH, PairReader, TextReader

PACKED = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def read(path):
    reader = TextReader(path)
    return [line for batch in reader.batches() for line in batch], reader.record()


def pair_of(source, target):
    return PairReader(RawPair("train", "train.0", "[[data.train]] number 1", source, target))


@pytest.mark.parametrize("suffix", PACKED)
def test_a_file_is_read_counted_and_hashed_in_one_go(tmp_path, suffix):
    text = "".join(f"line {number} ä\n" for number in range(25_000)).encode()
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACKED[suffix](text))
    lines, record = read(path)
    assert lines == text.decode().split("\n")[:-1]
    assert record.lines == 25_000
    assert record.text_bytes == len(text)
    assert record.bytes == path.stat().st_size
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_batches_have_a_fixed_size_so_that_two_files_stay_in_step(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x\n" * (2 * LINES_PER_BATCH + 1))
    sizes = [len(batch) for batch in TextReader(path).batches()]
    assert sizes == [LINES_PER_BATCH, LINES_PER_BATCH, 1]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb\n\n", ["a", "b", ""]),
        (b"a\r\nb\r\r\nc\r", ["a", "b\r", "c"]),
        (b"a\r\r", ["a\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        ("a\u2028b\u0085c\x0cd\x1ce\rf\x00\n".encode(), ["a\u2028b\u0085c\x0cd\x1ce\rf\x00"]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path, text, lines):
    path = tmp_path / "text"
    path.write_bytes(text)
    assert read(path)[0] == lines


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff")))
)
def test_any_text_is_read_as_written_however_the_blocks_fall(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_READ_BYTES", 3)
        assert read(path)[0] == lines


def test_a_byte_order_mark_is_one_only_at_the_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_READ_BYTES", 3)
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfab\n\xef\xbb\xbfc\n")
    assert read(path)[0] == ["ab", "\ufeffc"]


def test_what_lies_behind_the_packed_text_is_hashed_too(tmp_path):
    path = tmp_path / "text.xz"
    path.write_bytes(lzma.compress(b"a\n") + b"behind" * 500_000)
    lines, record = read(path)
    assert lines == ["a"]
    assert record.bytes == path.stat().st_size
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_bytes_that_are_not_utf8_are_found_by_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good line\n" * 250_000 + b"one\nna\xefve\n")
    with pytest.raises(DataError, match=r"0xef is not UTF-8") as caught:
        read(path)
    assert caught.value.where.endswith("text, line 250002")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_damaged_archive_is_refused(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    whole = PACKED[suffix]("".join(f"{n * n}\n" for n in range(9999)).encode())
    broken = whole[:500] + bytes(20) + whole[520:]
    for data in (whole[:-10], whole[: len(whole) // 2], b"plain text\n", broken):
        path.write_bytes(data)
        with pytest.raises(DataError, match="damaged"):
            read(path)


def test_a_file_without_lines_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x" * (20 << 20))
    with pytest.raises(DataError, match="a line of more than"):
        read(path)


def test_unequal_files_are_refused_with_both_counts(tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(b"x\n" * 30_000)
    for count in (3, 29_999, 30_001, 70_000):
        target.write_bytes(b"y\n" * count)
        with pytest.raises(DataError, match=rf"en has 30000 lines; .*de has {count} lines"):
            list(pair_of(source, target).batches())


@pytest.mark.parametrize(("source", "target"), [(b"", b"x\n"), (b"x\n", b""), (b"", b"")])
def test_an_empty_file_is_named(tmp_path, source, target):
    (tmp_path / "a.en").write_bytes(source)
    (tmp_path / "a.de").write_bytes(target)
    empty = "de" if source else "en"
    with pytest.raises(DataError, match=rf"a\.{empty} is empty"):
        list(pair_of(tmp_path / "a.en", tmp_path / "a.de").batches())
