"""What `corpora get` makes of what an entry says."""

import gzip
import json
import shutil
import socket
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from datasets.getting import DE, EN, content, get, table
from unisono.datasets.catalogue import find_entry
from unisono.datasets.entry import to_entry
from unisono.datasets.fetch import Received
from unisono.errors import ConfigError, DataError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def test_everything_that_an_entry_can_say(site, entry, tmp_path):
    got, steps = get(entry, tmp_path / "c")
    texts = {
        name: data.decode() for name, data in content(tmp_path / "c").items() if "/" not in name
    }
    assert texts.pop("train.en") == EN
    assert texts.pop("train.de") == DE
    assert texts.pop("valid.en") == "one\ntwo\n"
    assert texts.pop("valid.de") == "eins\nzwei\n"
    assert texts.pop("test.en") == "en & 1\nen 2\n" * 2
    assert texts.pop("test.de") == "de & 1\nde 2\n" * 2
    assert (
        texts.pop("talks.en")
        == texts.pop("talks.de")
        == ("title 0\nline 0\ntitle 1\ntitle 2\nline 2\ntitle 3\n")
    )
    assert texts.pop("held-out.en") == texts.pop("held-out.de") == "line 1\nline 3\n"
    assert (texts.pop("table.en"), texts.pop("table.de")) == ("x\nz\n", "y\nw\n")
    assert sorted(texts) == ["data.toml", "lock.json"]
    assert got.made == ("train", "valid", "test", "talks", "held-out", "table")
    assert {step.name for step in steps if isinstance(step, Received)} == set(site.files)


def test_the_lock_says_what_is_there_and_where_it_came_from(site, entry, tmp_path):
    get(entry, tmp_path)
    lock = json.loads((tmp_path / "lock.json").read_text())
    assert lock["format"] == 1
    for name, data in site.files.items():
        recorded = lock["downloads"][name]
        assert recorded["sha256"] == sha256(data).hexdigest()
        assert recorded["bytes"] == len(data)
        assert recorded["url"] == site.url(name)
        assert recorded["trust"] == ("checked" if name == "train.tgz" else "first use")
    assert len(lock["texts"]) == 12
    for name, text in lock["texts"].items():
        data = (tmp_path / name).read_bytes()
        assert text["sha256"] == sha256(data).hexdigest()
        assert (text["bytes"], text["lines"]) == (len(data), data.count(b"\n"))
    assert lock["texts"]["test.de"]["members"] == ["t2.de.sgm", "t1.de.sgm"]


def test_data_toml_can_be_pasted(entry, tmp_path):
    get(entry, tmp_path / "c")
    data = tomllib.loads((tmp_path / "c" / "data.toml").read_text())["data"]
    names = [Path(pair["target"]).name for pair in data["train"]]
    assert names == ["train.de", "talks.de", "table.de"]
    assert data["valid"]["source"] == str(tmp_path / "c" / "valid.en")
    assert data["test"]["source"] == str(tmp_path / "c" / "test.en")
    assert (data["source_language"], data["target_language"]) == ("en", "de")


def test_a_second_get_verifies_and_downloads_nothing(site, entry, tmp_path):
    get(entry, tmp_path)
    before, site.asked = content(tmp_path), []
    got, _ = get(entry, tmp_path)
    assert (site.asked, got.made, content(tmp_path)) == ([], (), before)
    shutil.rmtree(tmp_path / "downloads")
    got, _ = get(entry, tmp_path, offline=True)
    assert (site.asked, got.made) == ([], ())


def test_what_is_missing_is_made_again_and_the_rest_is_left(site, entry, tmp_path):
    get(entry, tmp_path)
    before, site.asked = content(tmp_path), []
    (tmp_path / "talks.de").unlink()
    got, _ = get(entry, tmp_path)
    assert (got.made, site.asked, content(tmp_path)) == (("talks",), [], before)
    shutil.rmtree(tmp_path / "downloads")
    (tmp_path / "valid.en").unlink()
    get(entry, tmp_path)
    assert set(site.asked) == {f"{at}val.{x}.gz" for x in ("en", "de") for at in ("gone/", "")}
    kept = {name: data for name, data in content(tmp_path).items() if "downloads" not in name}
    assert kept == {name: data for name, data in before.items() if "downloads" not in name}


def test_what_the_user_changed_is_named_and_left_alone(site, entry, tmp_path):
    get(entry, tmp_path)
    changed = DE.replace("Satz", "Wort")
    (tmp_path / "train.de").write_text(changed)
    (tmp_path / "valid.en").unlink()
    with pytest.raises(DataError, match=r"train\.de: its SHA-256 differs"):
        get(entry, tmp_path)
    assert (tmp_path / "train.de").read_text() == changed
    (tmp_path / "train.de").write_text(DE)
    get(entry, tmp_path)
    assert (tmp_path / "valid.en").exists()


def test_a_data_toml_of_ones_own_stays(entry, tmp_path):
    get(entry, tmp_path, only=("train",))
    first = (tmp_path / "data.toml").read_text()
    got, _ = get(entry, tmp_path)
    assert (tmp_path / "data.toml").read_text() != first
    (tmp_path / "data.toml").write_text("# mine\n")
    got, _ = get(entry, tmp_path)
    assert got.own_data_toml
    assert (tmp_path / "data.toml").read_text() == "# mine\n"


def test_only_some_sets(site, entry, tmp_path):
    got, _ = get(entry, tmp_path, only=("valid", "table"))
    assert [item.name for item in got.sets] == ["valid", "table"]
    assert "train.tgz" not in site.asked
    with pytest.raises(ConfigError, match="did you mean `train`"):
        get(entry, tmp_path, only=("trian",))


def test_a_first_download_that_is_another_one_later_is_refused(site, entry, tmp_path):
    get(entry, tmp_path)
    shutil.rmtree(tmp_path / "downloads")
    (tmp_path / "valid.en").unlink()
    old = sha256(site.files["val.en.gz"]).hexdigest()
    site.files["val.en.gz"] = gzip.compress(b"three\nfour\n")
    new = sha256(site.files["val.en.gz"]).hexdigest()
    with pytest.raises(DataError, match="first download") as caught:
        get(entry, tmp_path)
    assert old in caught.value.what
    assert new in caught.value.what
    assert not (tmp_path / "valid.en").exists()


def test_from_a_directory_without_the_network(site, entry, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.mkdir()
    for name, data in site.files.items():
        (mine / name).write_bytes(data)

    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    get(entry, tmp_path / "c", given=mine, offline=True)
    monkeypatch.undo()
    assert site.asked == []
    assert (tmp_path / "c" / "train.en").read_text() == EN
    assert not (tmp_path / "c" / "downloads").exists()
    assert {path.name: path.read_bytes() for path in mine.iterdir()} == site.files


def test_a_file_saved_under_the_name_of_its_address_is_found(site, tmp_path):
    description = table(site)
    description["set"], description["file"] = [description["set"][0]], [description["file"][0]]
    description["file"][0]["urls"] = ["https://example.org/x/en%20de.tgz?raw=1"]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "en de.tgz").write_bytes(site.files["train.tgz"])
    get(to_entry(description, where="x"), tmp_path / "c", given=mine, offline=True)
    assert (tmp_path / "c" / "train.en").read_text() == EN


def test_a_name_that_two_addresses_share_tells_nothing(site):
    description = table(site)
    for file in description["file"][1:3]:
        file["urls"] = [f"https://example.org/{file['name']}/val.gz"]
    description["file"][0]["urls"] = ["https://example.org/a.tgz", "https://example.org/b.zip"]
    entry = to_entry(description, where="x")
    assert [entry.aliases(file.name) for file in entry.file] == [("a.tgz",), (), (), ()]


def test_offline_names_the_sets_that_can_be_had(site, entry, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("train.tgz", "val.en.gz", "test.zip"):
        (mine / name).write_bytes(site.files[name])
    with pytest.raises(DataError, match=r"val\.de\.gz") as caught:
        get(entry, tmp_path / "c", given=mine, offline=True)
    only = "--only train --only test --only talks --only held-out --only table"
    assert caught.value.fix.endswith(only)
    get(entry, tmp_path / "c", given=mine, offline=True, only=tuple(only.split()[1::2]))


def test_a_directory_given_must_be_there_even_if_nothing_is_missing(entry, tmp_path):
    get(entry, tmp_path / "c")
    with pytest.raises(DataError, match="is not a directory"):
        get(entry, tmp_path / "c", given=tmp_path / "nowhere")


def test_a_lost_lock_is_named(entry, tmp_path):
    get(entry, tmp_path)
    (tmp_path / "lock.json").unlink()
    with pytest.raises(DataError, match=r"lock\.json is missing") as caught:
        get(entry, tmp_path)
    assert "delete the directory" in caught.value.fix


def test_offline_lists_what_is_missing(site, entry, tmp_path):
    with pytest.raises(DataError, match="--offline forbids") as caught:
        get(entry, tmp_path, offline=True)
    assert all(name in caught.value.what for name in site.files)
    assert "--from" in caught.value.fix
    assert site.asked == []


def test_multi30k_as_it_was_published(tmp_path):
    folder = SHARED / "multi30k-en-de"
    if not folder.is_dir():
        pytest.skip(f"the shared data is not here: {SHARED}")
    only = ("train", "valid", "test_2016_flickr")
    got, _ = get(
        find_entry("multi30k-en-de"), tmp_path / "c", given=folder, offline=True, only=only
    )
    assert [got.text(item, "de").lines for item in got.sets] == [29_000, 1_014, 1_000]
    for name, stem in zip(only, ("train", "val", "test_2016_flickr"), strict=True):
        for lang in ("en", "de"):
            plain = gzip.decompress((folder / f"{stem}.{lang}.gz").read_bytes())
            assert (tmp_path / "c" / f"{name}.{lang}").read_bytes() == plain
