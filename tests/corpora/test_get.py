import gzip
import json
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from hashlib import md5, sha256
from pathlib import Path

import pytest
import tomli_w

from corpora.archives import tar, zipped
from corpora.serving import serving
from unisono.corpora.entry import to_entry
from unisono.corpora.fetch import Received
from unisono.corpora.get import get_corpus
from unisono.corpora.known import find_entry
from unisono.errors import ConfigError, DataError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"

EN = "".join(f"sentence {n}\u2028!\n" for n in range(200))
DE = "".join(f"Satz {n}\n" for n in range(200))
TAGS = "<url>u{0}</url>\n<talkid>{0}</talkid>\n<title>title {0}</title>\n"
SEGS = '<doc docid="1"><seg id="1">{0} &amp; 1</seg>\n<seg id="2">{0} 2</seg></doc>'


def side(file, *members, **more):
    return {"file": file, **({"members": list(members)} if members else {}), **more}


def files():
    talk = "".join(TAGS.format(n) + f"line {n}\n" for n in range(4))
    return {
        "train.tgz": gzip.compress(tar(("d/a.en", EN.encode()), ("d/a.de", DE.encode()))),
        "val.en.gz": gzip.compress(b"one\ntwo\r\n"),
        "val.de.gz": gzip.compress(b"eins\nzwei"),
        "test.zip": zipped(
            *((f"t{n}.{lang}.sgm", SEGS.format(lang)) for n in (1, 2) for lang in ("en", "de")),
            *((f"talks.{lang}", talk) for lang in ("en", "de")),
            ("table.tsv", b"x\ty\nz\tw\n"),
        ),
    }


def table(site):
    sets = [
        {"name": "train", "role": "train", "pairs": 200},
        {"name": "valid", "role": "valid"},
        {"name": "test", "role": "test", "format": "sgml", "pairs": 4, "note": "both years"},
        {"name": "talks", "role": "train", "format": "iwslt-tags", "without_every": 4},
        {"name": "held-out", "role": "valid", "format": "iwslt-tags", "only_every": 4},
        {"name": "table", "role": "train", "format": "tsv"},
    ]
    for item in sets:
        item["sides"] = {}
    for column, lang in enumerate(("en", "de"), 1):
        train, valid, test, talks, held_out, columns = (item["sides"] for item in sets)
        train[lang] = side("train.tgz", f"d/a.{lang}")
        valid[lang] = side(f"val.{lang}.gz")
        test[lang] = side("test.zip", f"t2.{lang}.sgm", f"t1.{lang}.sgm")
        talks[lang] = held_out[lang] = side("test.zip", f"talks.{lang}")
        columns[lang] = side("test.zip", "table.tsv", column=column)
    downloads = [
        {"name": name, "urls": [site.url(f"gone/{name}"), site.url(name)]}
        for name in site.files
    ]
    downloads[0]["sha256"] = sha256(site.files["train.tgz"]).hexdigest()
    return {
        "name": "mine",
        "description": "a corpus of my own",
        "languages": ["en", "de"],
        "file": downloads,
        "set": sets,
    }


@pytest.fixture
def site():
    with serving(files()) as site:
        yield site


@pytest.fixture
def entry(site):
    return to_entry(table(site), where="test")


def get(entry, directory, **options):
    work = get_corpus(entry, directory, **options)
    steps = []
    while True:
        try:
            steps.append(next(work))
        except StopIteration as end:
            return end.value, steps


def content(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


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
    refused_after(site, entry, tmp_path, "test.zip", data, "begin at other lines")


def test_another_number_of_pairs_than_expected_is_refused(site, tmp_path):
    description = table(site)
    description["set"][0]["pairs"] = 201
    with pytest.raises(DataError, match="200 pairs instead of 201"):
        get(to_entry(description, where="x"), tmp_path)


def test_a_directory_that_holds_something_else_is_refused(site, entry, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match=r"holds something else: thesis\.tex"):
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
    with pytest.raises(DataError, match=r"train\.en: not ours"):
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


def test_stopped_at_any_step_the_next_call_goes_on(site, tmp_path):
    description = table(site)
    description["set"] = description["set"][:3]
    entry = to_entry(description, where="test")
    get(entry, tmp_path / "whole")
    here = (tmp_path / "whole" / "downloads").rename(tmp_path / "here")
    wanted = content(tmp_path / "whole")
    number, stopped = 0, True
    while stopped:
        directory = tmp_path / "c"
        number += 1
        work = get_corpus(entry, directory, given=here)
        stopped = all(next(work, None) is not None for _ in range(number))
        work.close()
        assert stopped != (directory / "lock.json").exists()
        get(entry, directory, given=here)
        found = content(directory)
        section = found["data.toml"].replace(bytes(directory), bytes(tmp_path / "whole"))
        assert section == wanted["data.toml"]
        assert found.keys() == wanted.keys()
        lock = json.loads(found["lock.json"])
        assert all(download["sha256"] for download in lock["downloads"].values())
        own = {"data.toml", "lock.json"}
        assert all(found[name] == wanted[name] for name in wanted.keys() - own)
        shutil.rmtree(directory)
    assert number > 10


KILLED = """
import os, signal, sys
from pathlib import Path
from unisono.corpora.get import get_corpus
from unisono.corpora.known import find_entry

left = int(sys.argv[3])
def counted(function):
    def call(*arguments, **keywords):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call

for name in ("rename", "mkdir", "unlink", "rmdir"):
    setattr(os, name, counted(getattr(os, name)))
for _ in get_corpus(find_entry(sys.argv[1]), Path(sys.argv[2]), given=Path(sys.argv[4])):
    pass
"""


@pytest.mark.ranks
def test_killed_at_any_change_of_the_disk_the_next_call_goes_on(site, tmp_path):
    description = table(site)
    description["set"] = description["set"][:2]
    description["file"] = description["file"][:3]
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(description))
    entry = find_entry(str(tmp_path / "mine.toml"))
    get(entry, tmp_path / "whole")
    here = (tmp_path / "whole" / "downloads").rename(tmp_path / "here")
    wanted = content(tmp_path / "whole")
    number = 0
    while True:
        number += 1
        directory = tmp_path / "c"
        arguments = [tmp_path / "mine.toml", directory, str(number), here]
        command = [sys.executable, "-c", KILLED, *arguments]
        code = subprocess.run(command, check=False).returncode
        assert code in (0, -signal.SIGKILL)
        finished = (directory / "lock.json").exists()
        texts = ("train.en", "train.de", "valid.en", "valid.de")
        assert not finished or all((directory / name).exists() for name in texts)
        get(entry, directory, given=here)
        found = content(directory)
        assert found.keys() == wanted.keys()
        assert all(found[n] == wanted[n] for n in wanted.keys() - {"data.toml", "lock.json"})
        shutil.rmtree(directory)
        if code == 0:
            break
    assert number > 10


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
