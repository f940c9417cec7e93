import lzma
import random
import struct
import tarfile
import warnings
import zipfile

import pytest
import zstandard

from datasets.archives import PACK, special, tar, zipped
from unisono import decompress
from unisono.datasets.unpack import wanted_members
from unisono.errors import DataError

TEXT = "".join(f"Satz {n}: {n * n}\n" for n in range(5000)).encode()


def unpack(path, *wishes):
    """Return the bytes of the wanted members, as the caller of the library reads them."""
    found = {}
    for member, _ in wanted_members(path, wishes or ("",)):
        parts = iter(lambda m=member: m.read(10_000), b"")
        found[member.wish] = b"".join(parts)
    return found


def refused(path, *wishes, match):
    with pytest.raises(DataError, match=match) as caught:
        unpack(path, *wishes)
    assert caught.value.fix
    assert path.name in str(caught.value)


@pytest.mark.parametrize("packing", PACK)
def test_a_packed_file_is_read_in_full_also_in_several_streams(tmp_path, packing):
    path = tmp_path / f"text{packing}"
    path.write_bytes(PACK[packing](TEXT))
    assert unpack(path) == {"": TEXT}
    pieces = [TEXT[at : at + 9999] for at in range(0, len(TEXT), 9999)]
    path.write_bytes(b"".join(map(PACK[packing], pieces)))
    assert unpack(path) == {"": TEXT}


def test_a_plain_file_is_read_as_it_is(tmp_path):
    (tmp_path / "text.en").write_bytes(TEXT)
    assert unpack(tmp_path / "text.en") == {"": TEXT}


@pytest.mark.parametrize("packing", PACK)
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path, packing):
    data = PACK[packing](TEXT)
    path = tmp_path / f"text{packing}"
    for size in (len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        refused(path, match="cannot be unpacked")


@pytest.mark.parametrize("packing", ["", *PACK])
def test_named_members_of_a_tar_are_read_in_one_pass(tmp_path, packing):
    path = tmp_path / f"a.tar{packing}"
    data = tar(("x/a.en", TEXT), ("x/other", b"!" * 999), ("./x/a.de", TEXT[::-1]), ("e", b""))
    path.write_bytes(PACK[packing](data) if packing else data)
    assert unpack(path, "x/a.de", "x/a.en") == {"x/a.en": TEXT, "x/a.de": TEXT[::-1]}


@pytest.mark.parametrize(
    "format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_every_format_of_tar_is_read_with_long_names_and_between_links(tmp_path, format):
    long = "d" * 90 + "/" + "n" * 90
    names = ["plain", long, "ümläut/ß.de", "deep/" * 15 + "f", "y" * 100]
    if format != tarfile.USTAR_FORMAT:
        names += ["z" * 300, "ü" * 120]
    members = [(name, name.encode() * n) for n, name in enumerate(names)]
    links = [special("l", tarfile.SYMTYPE, "plain"), special("h", tarfile.LNKTYPE, "plain")]
    data = tar(
        *members[:3], *links, special("d/", tarfile.DIRTYPE), *members[3:], format=format
    )
    (tmp_path / "a.tar").write_bytes(data)
    assert unpack(tmp_path / "a.tar", *names) == dict(members)
    assert unpack(tmp_path / "a.tar", names[-1]) == dict(members[-1:])


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.DIRTYPE,
        tarfile.GNUTYPE_SPARSE,
    ],
)
def test_a_wanted_member_that_is_no_file_is_refused(tmp_path, kind):
    path = tmp_path / "a.tar"
    path.write_bytes(tar(special("a.en", kind, "/etc/passwd"), ("b", b"1\n")))
    refused(path, "a.en", match="is not a file but a")
    assert unpack(path, "b") == {"b": b"1\n"}


def test_a_sparse_file_in_a_pax_record_is_refused(tmp_path):
    info = tarfile.TarInfo("a.en")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "a.en"}
    (tmp_path / "a.tar").write_bytes(tar(info))
    refused(tmp_path / "a.tar", "a.en", match="sparse")


def test_paths_that_lead_out_are_never_wanted(tmp_path):
    names = ["../a.en", "/a.en", "x/../../a.en", "/etc/cron.d/a.en"]
    (tmp_path / "a.tar").write_bytes(tar(*((name, b"evil\n") for name in names)))
    (tmp_path / "a.zip").write_bytes(zipped(*((name, b"evil\n") for name in names)))
    for path in (tmp_path / "a.tar", tmp_path / "a.zip"):
        for wish in ("a.en", "*.en", *names):
            refused(path, wish, match="there is no member")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "a.zip"]


def test_a_member_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar(("a", b"1"), ("./a", b"2")))
    refused(tmp_path / "a.tar", "a", match="two members")
    with warnings.catch_warnings(action="ignore"):
        (tmp_path / "a.zip").write_bytes(zipped(("a", b"1"), ("a", b"2")))
    refused(tmp_path / "a.zip", "a", match="two members")
    (tmp_path / "b.zip").write_bytes(zipped(("a.de", b"1"), ("b.de", b"2")))
    refused(tmp_path / "b.zip", "*.de", match="two members")


def test_patterns_look_at_the_last_part_of_a_name(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped(("Books.de-en.de", b"d"), ("x/README", b"r")))
    assert unpack(tmp_path / "a.zip", "*.de", "READ*") == {"*.de": b"d", "READ*": b"r"}


@pytest.mark.parametrize("packing", PACK)
def test_a_bomb_is_refused_after_a_bounded_amount(tmp_path, packing):
    zeros = bytes(24 << 20)
    (tmp_path / f"a{packing}").write_bytes(PACK[packing](zeros))
    refused(tmp_path / f"a{packing}", match="unpacks to more than")
    # A bomb that nobody wants costs time, so it is bounded as well.
    (tmp_path / f"a.tar{packing}").write_bytes(PACK[packing](tar(("bomb", zeros), ("a", b"1"))))
    refused(tmp_path / f"a.tar{packing}", "a", match="unpacks to more than")


def test_a_zip_bomb_is_refused_before_it_is_opened(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped(("a", bytes(24 << 20)), ("b", b"fine")))
    refused(tmp_path / "a.zip", "a", match="unpacks to more than")
    assert unpack(tmp_path / "a.zip", "b") == {"b": b"fine"}


def test_a_zip_that_lies_about_sizes_gives_no_more_than_it_said(tmp_path):
    data = bytearray(zipped(("a", bytes(24 << 20))))
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<L", data, at + 24, 1000)
    (tmp_path / "a.zip").write_bytes(data)
    refused(tmp_path / "a.zip", "a", match="cannot be unpacked")


def test_zip_members_are_bounded_together(tmp_path):
    names = [(f"{n}.en", bytes(5 << 20)) for n in range(8)]
    (tmp_path / "a.zip").write_bytes(zipped(*names))
    refused(tmp_path / "a.zip", *(name for name, _ in names), match="unpacks to more than")


def test_an_encrypted_zip_is_refused(tmp_path):
    data = bytearray(zipped(("a", b"secret")))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    refused(tmp_path / "a.zip", "a", match="is encrypted")


def test_links_in_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("a")
    link.external_attr = 0o120777 << 16
    (tmp_path / "a.zip").write_bytes(zipped((link, b"/etc/passwd"), ("b/", b"")))
    refused(tmp_path / "a.zip", "a", match="symbolic link")
    refused(tmp_path / "a.zip", "b", match="directory")


def test_zip_of_a_kind_we_do_not_read_is_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped(("a", TEXT), method=zipfile.ZIP_LZMA))
    refused(tmp_path / "a.zip", "a", match="in a way Unisono does not read")


def test_zip64_is_read(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as zip, zip.open("a", "w", force_zip64=True) as file:
        file.write(TEXT)
    assert unpack(tmp_path / "a.zip", "a") == {"a": TEXT}


def test_what_wants_gigabytes_of_memory_is_refused(tmp_path, monkeypatch):
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "a.zst").write_bytes(packer.compress(TEXT) + packer.flush())
    refused(tmp_path / "a.zst", match="memory")
    (tmp_path / "a.xz").write_bytes(lzma.compress(TEXT))
    assert unpack(tmp_path / "a.xz") == {"": TEXT}
    monkeypatch.setattr(decompress, "_XZ_MEMORY", 1 << 16)
    refused(tmp_path / "a.xz", match="[Mm]emory")


def test_a_name_longer_than_any_is_refused_before_it_is_read(tmp_path):
    info = tarfile.TarInfo("a")
    info.pax_headers = {"comment": "x" * (2 << 20)}
    (tmp_path / "a.tar").write_bytes(tar(info))
    refused(tmp_path / "a.tar", "a", match="record of")


def test_a_tar_is_refused_if_it_ends_without_its_end_mark(tmp_path):
    data = tar(("a", TEXT[:512]), ("b", TEXT[:512]))
    for end in (1024, 1024 + 100, 1536, 1536 + 100, 2048):
        (tmp_path / "a.tar").write_bytes(data[:end])
        refused(tmp_path / "a.tar", "a", match="cannot be unpacked")


def test_damage_behind_the_wanted_member_is_refused(tmp_path):
    data = bytearray(tar(("a", TEXT[:512]), ("b", TEXT[:512])))
    data[1024 + 20] ^= 1
    (tmp_path / "a.tar").write_bytes(data)
    refused(tmp_path / "a.tar", "a", match="cannot be unpacked")


def test_headers_without_end_and_negative_sizes_are_refused(tmp_path):
    pax = tarfile.TarInfo("a")
    pax.pax_headers = {"comment": "x"}
    record = tar(pax)[:1024]
    (tmp_path / "a.tar").write_bytes(record * 5000)
    refused(tmp_path / "a.tar", "a", match="cannot be unpacked")
    negative = tarfile.TarInfo("a")
    negative.pax_headers = {"size": "-2048"}
    for wish in ("a", "b"):
        (tmp_path / "a.tar").write_bytes(tar(("c", b"1"), negative, ("b", b"1")))
        refused(tmp_path / "a.tar", wish, match="cannot be unpacked")


def test_an_archive_within_an_archive_is_just_bytes(tmp_path):
    inner = tar(("a.en", TEXT))
    (tmp_path / "a.tar").write_bytes(tar(("inner.tar", inner)))
    refused(tmp_path / "a.tar", "a.en", match="there is no member")
    assert unpack(tmp_path / "a.tar", "inner.tar") == {"inner.tar": inner}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.zst", "a.tar.xz", "a.zip"])
def test_damage_gives_an_error_for_people_or_does_not_matter(tmp_path, name):
    rng = random.Random(name)
    plain = tar(("a", TEXT[:3000]), ("b", b"x" * 600))
    packing = name[5:]
    whole = zipped(("a", TEXT[:3000])) if name == "a.zip" else plain
    whole = PACK[packing](plain) if packing in PACK else whole
    outcomes = set()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = rng.randint(0, len(data)) if rng.random() < 0.3 else len(data)
        (tmp_path / name).write_bytes(data[:cut])
        try:
            outcomes.add(len(unpack(tmp_path / name, "a")))
        except DataError:
            outcomes.add("refused")
    assert "refused" in outcomes
