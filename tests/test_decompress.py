import io
import random

import pytest

from datasets.archives import PACK
from unisono.decompress import (
    DecompressedFile,
    DecompressionError,
    compression_of,
    decompressed_blocks,
)

TEXT = "".join(f"Satz {n}: {n * n}\n" for n in range(50_000)).encode()


def read(packed, suffix, size=1 << 16, **options):
    stream = DecompressedFile(io.BytesIO(packed), suffix, **options)
    return b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize("suffix", PACK)
def test_streams_follow_one_another_with_zeros_between_and_behind(suffix):
    pieces = [TEXT[at : at + 99_999] for at in range(0, len(TEXT), 99_999)]
    packed = bytes(7).join(map(PACK[suffix], pieces)) + bytes(100_000)
    assert read(packed, suffix) == TEXT


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_however_little_is_asked_for_all_of_it_comes(suffix, size):
    noise = random.Random(1).randbytes(500)
    for text in (b"x" * 5000, noise, noise + bytes(5000)):
        assert read(PACK[suffix](text), suffix, size) == text


@pytest.mark.parametrize("suffix", PACK)
def test_what_is_behind_a_stream_is_refused_or_ignored(suffix):
    packed = PACK[suffix](TEXT) + b"behind" * 50_000
    with pytest.raises(DecompressionError):
        read(packed, suffix)
    assert read(packed, suffix, ignore_trailing=True) == TEXT


@pytest.mark.parametrize("suffix", PACK)
def test_the_bytes_before_the_damage_are_handed_out(suffix):
    packed = PACK[suffix](TEXT)
    for damaged in (packed + packed[:-10], packed + packed[:200] + b"!" * 500):
        found = b""
        with pytest.raises(DecompressionError):
            for block in decompressed_blocks(io.BytesIO(damaged), suffix):
                found += block
        assert found.startswith(TEXT)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("data", [b"", b"plain text\n"])
def test_a_file_of_another_format_is_refused(suffix, data):
    with pytest.raises(DecompressionError):
        read(data, suffix)


@pytest.mark.parametrize("suffix", PACK)
def test_the_first_bytes_name_the_compression(suffix):
    assert compression_of(PACK[suffix](TEXT)) == suffix
    assert compression_of(b"BZ said hello") == ""


def test_a_file_with_any_other_suffix_is_plain():
    assert b"".join(decompressed_blocks(io.BytesIO(TEXT), ".en")) == TEXT
