import re
import tomllib

import pytest

from unisono.datasets.catalogue import CATALOGUE, catalogue, find_entry
from unisono.datasets.entry import ARCHIVES, read_entry, to_entry
from unisono.errors import ConfigError

FILE = {"name": "a.tgz", "urls": ["https://x.org/a.tgz"]}
SIDES = {lang: {"file": "a.tgz", "members": [f"a.{lang}"]} for lang in ("en", "de")}
LEAST = {
    "name": "mine",
    "description": "d",
    "languages": ["en", "de"],
    "file": [FILE],
    "set": [{"name": "train", "role": "train", "sides": SIDES}],
}


def changed_set(**changes):
    return {**LEAST, "set": [{**LEAST["set"][0], **changes}]}


def changed_side(**changes):
    return changed_set(sides={**SIDES, "de": {**SIDES["de"], **changes}})


def test_every_entry_of_the_catalogue_loads_under_its_name():
    entries = catalogue()
    assert sorted(entries) == sorted(path.stem for path in CATALOGUE.glob("*.toml"))
    wanted = {"wmt14-en-de", "wmt16-en-de", "iwslt14-de-en", "iwslt17-de-en", "iwslt17-en-de"}
    wanted |= {"multi30k-en-de", "multi30k-en-fr", "multi30k-en-cs"}
    assert wanted <= set(entries)
    for entry in entries.values():
        assert entry.name.endswith("-".join(entry.languages))
        assert {item.role for item in entry.set} == {"train", "valid", "test"}
        assert {file.name for file in entry.file} == {
            side.file for item in entry.set for side in item.sides.values()
        }


def test_the_catalogue_contradicts_itself_nowhere():
    seen = {}
    for entry in catalogue().values():
        for file in entry.file:
            assert all(url.startswith("https://") for url in file.urls)
            facts = seen.setdefault(file.urls[0], file)
            assert facts == file, f"{entry.name} says something else of {file.name}"
        for item in entry.set:
            for language, side in item.sides.items():
                for member in side.members:
                    name = re.sub(r"\.(sgm|xml)$", "", member)
                    assert name.endswith(f".{language}"), f"{entry.name}: {member}"


def test_the_sums_are_those_that_are_known():
    entries = catalogue()
    assert entries["wmt14-en-de"].pairs("train") == 4_520_620
    assert entries["wmt16-en-de"].pairs("train") == 4_562_102
    tests = [item for item in entries["wmt16-en-de"].set if item.role == "test"]
    assert [(item.name, item.pairs) for item in tests] == [
        ("newstest2014-full", 3003),
        ("newstest2014-filtered", 2737),
    ]
    assert entries["multi30k-en-de"].pairs("train") == 29_000
    assert not [item for item in entries["multi30k-en-cs"].set if "2017" in item.name]


def test_the_least_entry_is_enough():
    assert to_entry(LEAST, where="x").set[0].sides["de"].members == ("a.de",)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({**LEAST, "licens": "x"}, "`licens` is not a key.*did you mean `licence`"),
        ({**LEAST, "file": [{**FILE, "sha": ""}]}, r"`sha` .*\[\[file\]\] a.tgz.*`sha256`"),
        (changed_set(rolle="x"), r"`rolle`.*\[\[set\]\] train.*did you mean `role`"),
        (changed_side(member=["x"]), r"`member` .*sides.de.*did you mean `members`"),
        ({k: v for k, v in LEAST.items() if k != "languages"}, "languages"),
        (changed_set(role="dev"), "Invalid enum value 'dev'.*set.*role.*train, valid, test"),
        (changed_set(pairs=-1), "Expected `int` >= 0"),
        ({**LEAST, "name": "../up"}, "cannot be a name"),
        (changed_set(name=".."), "cannot be a name"),
        (changed_set(name="a/b"), "cannot be a name"),
        ({**LEAST, "file": [{**FILE, "name": "/etc/a.tgz"}]}, "cannot be a name"),
        ({**LEAST, "languages": ["en", "../x"]}, "sides|cannot be a name"),
        ({**LEAST, "languages": ["en", "en"]}, "both languages are `en`"),
        ({**LEAST, "languages": ["en", "fr"]}, "sides en, de instead of en and fr"),
        ({**LEAST, "set": []}, "no \\[\\[set\\]\\]"),
        ({**LEAST, "set": LEAST["set"] * 2}, "`train.de` is used twice|used twice"),
        ({**LEAST, "file": [{**FILE, "urls": []}]}, "has no urls"),
        ({**LEAST, "file": [{**FILE, "urls": ["ftp://x.org/a"]}]}, "not an address"),
        ({**LEAST, "file": [{**FILE, "urls": ["file:///etc/passwd"]}]}, "not an address"),
        ({**LEAST, "file": [{**FILE, "sha256": "12"}]}, "is not a sha256"),
        (changed_side(file="b.tgz"), r"no \[\[file\]\] called `b.tgz`"),
        (changed_side(members=[]), "is an archive"),
        (changed_side(members=["a", "a"]), "named twice"),
        (changed_side(column=2), "the format tsv needs a `column`"),
        (changed_set(format="tsv"), "the format tsv needs a `column`"),
        (changed_set(only_every=1), "to 2 or more"),
        (changed_set(only_every=5, without_every=5), "to 2 or more"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(table, says):
    with pytest.raises(ConfigError) as caught:
        to_entry(table, where="mine.toml")
    assert re.search(says, str(caught.value), re.DOTALL), str(caught.value)
    assert caught.value.where
    assert caught.value.fix


def test_an_address_whose_last_part_no_file_can_have_gives_no_name():
    """Found by the campaign of 2026-11-18: the system refuses to look for such a file."""
    urls = [f"https://x.org/{'a' * 3_000}.tgz", "https://x.org/other.tgz"]
    entry = to_entry({**LEAST, "file": [{**FILE, "urls": urls}]}, where="mine.toml")
    assert entry.aliases(FILE["name"]) == ("other.tgz",)


def test_names_that_would_overwrite_the_record_are_refused():
    table = {**LEAST, "languages": ["json", "de"]}
    table["set"] = [{**LEAST["set"][0], "name": "lock"}]
    table["set"][0]["sides"] = {"json": SIDES["en"], "de": SIDES["de"]}
    with pytest.raises(ConfigError, match="`lock.json` is used twice"):
        to_entry(table, where="x")


def test_the_example_of_the_documentation_is_an_entry(pytestconfig):
    page = (pytestconfig.rootpath / "docs" / "how-to" / "corpora.md").read_text("utf-8")
    (example,) = re.findall(r"^```toml\n(name = .*?)^```", page, re.MULTILINE | re.DOTALL)
    entry = to_entry(tomllib.loads(example), where="docs/how-to/corpora.md")
    assert entry.file
    assert all(suffix in page for suffix in ARCHIVES)


def test_every_known_name_is_on_the_page(pytestconfig):
    page = (pytestconfig.rootpath / "docs" / "how-to" / "corpora.md").read_text("utf-8")
    for name in catalogue():
        assert f"`{name}`" in page


def test_a_file_that_is_no_entry(tmp_path):
    for name, text, says in [
        ("none.toml", None, "cannot be read"),
        ("bad.toml", "name = ", "not valid TOML"),
        ("latin.toml", b"name = '\xe9'", "cannot be read"),
    ]:
        path = tmp_path / name
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ConfigError, match=says):
            read_entry(path)


def test_opus_is_named_by_pattern():
    entry = find_entry("opus:Books/v1/en-de")
    assert (entry.name, entry.languages) == ("opus-Books-v1-en-de", ("en", "de"))
    (file,) = entry.file
    assert file.urls == ("https://object.pouta.csc.fi/OPUS-Books/v1/moses/de-en.txt.zip",)
    assert not file.checked
    assert entry.set[0].sides["de"].members == ("*.de",)


@pytest.mark.parametrize(
    "name",
    ["opus:Books", "opus:Books/v1/de", "opus:../v1/de-en", "opus:B/../de-en", "opus:B/v1/de-de"]
    + ["opus:B/v1/DE-en", "opus:B/v1/de-en/x", "Opus:B/v1/de-en", "opus:B/v1/de-en\n"],
)
def test_a_slip_in_an_opus_name_shows_the_pattern(name):
    with pytest.raises(ConfigError, match="opus:CORPUS/VERSION/SOURCE-TARGET"):
        find_entry(name)


def test_an_unknown_name_suggests_the_right_one():
    with pytest.raises(ConfigError, match="get wmt16-en-de: it is the same text"):
        find_entry("wmt16-de-en")
    with pytest.raises(ConfigError, match="did you mean `multi30k-en-fr`"):
        find_entry("multi30k_en_fr")
