"""Thousands of damaged files: each is read, passed over or refused with a sentence."""

import shutil
from contextlib import chdir

import pytest

from fuzz.readers import read_damaged, run
from fuzz.samples import READERS

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
