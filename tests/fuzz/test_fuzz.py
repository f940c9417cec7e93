"""Thousands of damaged files: each is read, passed over or refused with a sentence."""

import json
import shutil
from contextlib import chdir

import pytest

from fuzz.readers import GOLDEN, SHOW, SHOW_JSON, TRANSLATE, read_damaged, run
from fuzz.samples import READERS, corpus, imported
from unisono.exit_codes import BAD_DATA, DONE

SEEDS = 240
# Its corpus and texts are not there; its sizes cannot be read: both end in an error.
REFUSED = {"settings", "foreign_config"}


@pytest.fixture(scope="module", params=list(READERS))
def reader(request, tmp_path_factory):
    return READERS[request.param](tmp_path_factory.mktemp("fuzz") / request.param)


def test_what_is_not_damaged_is_read(reader, tmp_path):
    if reader.sample.name in REFUSED:
        pytest.skip("it is refused as it is")
    copy = shutil.copytree(reader.sample, tmp_path / "copy")
    for make in reader.commands:
        with chdir(copy):
            code, said, crashed = run(make(copy), reader.input_in(copy))
        assert (code, crashed) == (0, ""), said


def test_damage_is_never_a_traceback_never_believed_and_never_obeyed(reader, tmp_path):
    seeds = range(-(-SEEDS // reader.cost // len(reader.commands)))
    found = [o for seed in seeds for o in read_damaged(reader, tmp_path / "copy", seed)]
    assert not [outcome for outcome in found if outcome.is_bad]


@pytest.mark.parametrize(
    ("words", "given", "code"),
    [((), b"a" * 1_000_000, BAD_DATA), (("--html",), b"<div>" * 100_000, DONE)],
    ids=["a line of a megabyte", "elements within elements"],
)
def test_translate_ends_in_time_whatever_it_reads(words, given, code):
    found, said, crashed = run([*TRANSLATE(GOLDEN / "bundle-1"), *words], given)
    assert (found, crashed) == (code, ""), said[:1_000]


@pytest.mark.parametrize("command", [SHOW, SHOW_JSON])
def test_a_corpus_without_a_training_set_is_refused(command, tmp_path):
    """Found by the campaign of 2026-11-18: a manifest that had lost `train`."""
    copy = corpus(tmp_path / "copy").sample
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["splits"]["train"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    code, said, crashed = run(command(copy))
    assert (code, crashed) == (BAD_DATA, ""), said
    assert "it has no training set" in said


def test_a_count_that_no_run_reaches_is_damage(tmp_path):
    """Found by the same campaign: a number of 400 digits in imported.json."""
    copy = imported(tmp_path / "copy").sample
    about = json.loads((copy / "imported.json").read_text())
    (copy / "imported.json").write_text(json.dumps(about | {"parameters": 10**400}))
    code, said, crashed = run(SHOW(copy))
    assert not crashed
    assert "imported.json" in said
