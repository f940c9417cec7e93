"""Hundreds of damaged files: each is read, passed over or refused with a sentence."""

import pytest

from fuzz.readers import read_damaged, run
from fuzz.samples import READERS

CASES = {"run": 15, "imported": 15, "bundle": 20, "bundle_rehashed": 20}
# Its corpus and texts are not there; its sizes cannot be read: both end in an error.
REFUSED = {"settings", "foreign_config"}


@pytest.mark.parametrize("name", list(READERS))
def test_damage_is_never_a_traceback_never_believed_and_never_obeyed(name, tmp_path):
    reader = READERS[name](tmp_path / "sample")
    seeds = range(CASES.get(name, 40))
    found = [o for seed in seeds for o in read_damaged(reader, tmp_path / "copy", seed)]
    assert not [outcome for outcome in found if outcome.is_bad]


@pytest.mark.parametrize("name", sorted(READERS.keys() - REFUSED))
def test_what_is_not_damaged_is_read(name, tmp_path):
    reader = READERS[name](tmp_path / "sample")
    for make in reader.commands:
        code, said, crashed = run(make(tmp_path / "sample"), reader.given.encode())
        assert (code, crashed) == (0, ""), said
