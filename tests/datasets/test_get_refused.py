"""What `corpora get` refuses, and what it leaves behind."""

import gzip
import json
import re
import resource
from hashlib import md5, sha256

import pytest

from datasets.archives import zipped
from datasets.getting import DE, SEGS, content, get, table
from unisono.datasets.entry import to_entry
from unisono.datasets.get import get_corpus
from unisono.errors import DataError


def refused_after(site, entry, directory, name, data, match):
    """Serve something else under `name` and expect an error and no text of that set."""
    site.files[name] = data
    with pytest.raises(DataError, match=match):
        get(entry, directory)
    assert not (directory / "lock.json").exists()
    return content(directory)


def test_sides_of_unequal_length_are_refused(site, entry, tmp_path):
    short = gzip.compress(b"1\n")
    left = refused_after(site, entry, tmp_path, "val.de.gz", short, "2 lines and 1 lines")
    assert "valid.de" not in left
    assert "valid.en" not in left


def test_members_of_unequal_length_are_refused_even_if_the_sums_agree(site, entry, tmp_path):
    members = [
        (f"t{n}.{lang}.sgm", "<seg>a</seg>" * (n if lang == "en" else 3 - n))
        for n in (1, 2)
        for lang in ("en", "de")
    ]
    members += [(f"talks.{lang}", b"") for lang in ("en", "de")]
    data = zipped(*members, ("table.tsv", b""))
    refused_after(site, entry, tmp_path, "test.zip", data, "2 lines and 1 lines")


def test_talks_that_begin_at_other_lines_are_refused(site, entry, tmp_path):
    talks = {
        "en": "<talkid>1</talkid>\na\nb\n<talkid>2</talkid>\nc\n",
        "de": "<talkid>1</talkid>\na\n<talkid>2</talkid>\nb\nc\n",
    }
    members = [(f"t{n}.{lang}.sgm", SEGS) for n in (1, 2) for lang in ("en", "de")]
    members += [(f"talks.{lang}", text) for lang, text in talks.items()]
    data = zipped(*members, ("table.tsv", b""))
    refused_after(site, entry, tmp_path, "test.zip", data, "begin at different lines")


def test_another_number_of_pairs_than_expected_is_refused(site, tmp_path):
    description = table(site)
    description["set"][0]["pairs"] = 201
    with pytest.raises(DataError, match="200 pairs instead of 201"):
        get(to_entry(description, where="x"), tmp_path)


def test_a_directory_that_holds_something_else_is_refused(site, entry, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match=r"holds other files: thesis\.tex"):
        get(entry, tmp_path)
    assert (content(tmp_path), site.asked) == ({"thesis.tex": b"years of work"}, [])
    with pytest.raises(DataError, match="is a file"):
        get(entry, tmp_path / "thesis.tex")


def test_another_corpus_in_the_directory_is_refused(site, entry, tmp_path):
    get(entry, tmp_path)
    other = to_entry({**table(site), "name": "other"}, where="x")
    with pytest.raises(DataError, match="holds the corpus mine, not other"):
        get(other, tmp_path)


def test_a_text_that_is_not_ours_is_never_overwritten(entry, tmp_path):
    get(entry, tmp_path, only=("valid",))
    (tmp_path / "train.en").write_text("my own\n")
    with pytest.raises(DataError, match=r"train\.en: lock\.json does not know it"):
        get(entry, tmp_path)
    assert (tmp_path / "train.en").read_text() == "my own\n"


def test_a_damaged_lock_is_named(entry, tmp_path):
    get(entry, tmp_path)
    (tmp_path / "lock.json").write_text("{")
    with pytest.raises(DataError, match="lock.json is damaged"):
        get(entry, tmp_path)


CHANGES = {
    "without_every": ("set", 3, 3, r"talks\.en: format .* every 3th line, before"),
    "role": ("set", 0, "test", r"train\.en: role test, before train"),
    "pairs": ("set", 0, 7, r"train\.de: pairs 7, before 200"),
    "name": ("set", 0, "more", r"train\.de is not in the entry any more"),
    "sha256": ("file", 0, "0" * 64, r"train\.tgz with SHA-256 0{64}, before"),
    "md5": ("file", 1, "0" * 32, r"val\.en\.gz with MD5 0{32}, before"),
    "bytes": ("file", 1, 7, r"val\.en\.gz with 7 bytes, before"),
}


@pytest.mark.parametrize("key", CHANGES)
def test_an_entry_that_was_changed_does_not_pass_for_the_old_one(site, entry, tmp_path, key):
    get(entry, tmp_path)
    before, description = content(tmp_path), table(site)
    kind, number, value, words = CHANGES[key]
    description[kind][number][key] = value
    with pytest.raises(DataError, match="the entry has changed since") as caught:
        get(to_entry(description, where="x"), tmp_path)
    assert re.search(words, caught.value.what)
    assert "--to" in caught.value.fix
    assert content(tmp_path) == before


def test_other_members_are_another_corpus(site, entry, tmp_path):
    get(entry, tmp_path)
    description = table(site)
    description["set"][2]["sides"]["en"]["members"].reverse()
    with pytest.raises(DataError, match=r"test\.en: members t1.en.sgm, t2.en.sgm, before t2"):
        get(to_entry(description, where="x"), tmp_path)


def test_a_checksum_that_is_named_later_confirms_the_first_download(site, entry, tmp_path):
    get(entry, tmp_path)
    description = table(site)
    description["file"][1]["md5"] = md5(site.files["val.en.gz"]).hexdigest()
    description["file"][2]["urls"] = ["https://example.org/elsewhere.gz"]
    get(to_entry(description, where="x"), tmp_path, offline=True)
    downloads = json.loads((tmp_path / "lock.json").read_text())["downloads"]
    trust = [downloads[name]["trust"] for name in ("val.en.gz", "val.de.gz")]
    assert trust == ["checked", "first use"]


@pytest.mark.parametrize("name", ["val.en.gz", "test.zip"])
def test_a_broken_first_download_is_not_believed(site, entry, tmp_path, name):
    whole = site.files[name]
    refused_after(site, entry, tmp_path, name, whole[: len(whole) // 2], "cannot be unpacked")
    assert not list(tmp_path.glob(".tmp-*"))
    (tmp_path / "downloads" / name).unlink()
    site.files[name] = whole
    got, _ = get(entry, tmp_path)
    recorded = got.lock.downloads[name]
    assert (recorded.sha256, recorded.url) == (sha256(whole).hexdigest(), site.url(name))
    assert all(download.sha256 for download in got.lock.downloads.values())


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(site, tmp_path):
    description = table(site)
    description["file"][0]["bytes"] = 10**15
    with pytest.raises(DataError, match="GB are needed"):
        get(to_entry(description, where="x"), tmp_path)
    assert site.asked == []


def test_a_directory_that_cannot_be_made(site, entry, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write") as caught:
        get(entry, tmp_path / "file" / "c")
    assert "--to" in caught.value.fix
    assert site.asked == []


def test_a_full_disk_leaves_nothing_that_looks_complete(entry, tmp_path):
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    get(entry, tmp_path / "other", only=("valid",))
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, usual[1]))
    try:
        with pytest.raises(DataError, match="cannot write: File too large"):
            get(entry, tmp_path / "c")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert not (tmp_path / "c" / "lock.json").exists()
    get(entry, tmp_path / "c")
    assert (tmp_path / "c" / "train.de").read_text() == DE


def test_two_at_a_time_in_one_directory_are_refused(entry, tmp_path):
    work = get_corpus(entry, tmp_path)
    next(work)
    with pytest.raises(DataError, match="another process is getting"):
        get(entry, tmp_path)
    work.close()
    get(entry, tmp_path)
