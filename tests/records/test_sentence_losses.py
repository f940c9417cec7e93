"""Losses of sentences come back as they were written, or not at all."""

import numpy as np
import pytest

from unisono.records.layout import RunDirectory
from unisono.records.sentence_losses import read_losses, write_losses

TOKENS = np.array([3, 5, 2], np.int32)
LOSSES = [3.0, 10.0, 7.0]
MEAN = 2.0


def written(run, step=40):
    write_losses(run, step, LOSSES, TOKENS)
    return RunDirectory(run).sentence_losses(step)


def test_what_was_written_is_read(tmp_path):
    written(tmp_path, 40)
    written(tmp_path, 80)
    found = read_losses(tmp_path, {40: MEAN, 80: MEAN, 120: MEAN})
    assert list(found.at_step) == [40, 80]
    assert found.at_step[40].tolist() == LOSSES
    assert found.tokens.tolist() == TOKENS.tolist()


def test_numpy_itself_can_read_the_files(tmp_path):
    array = np.load(written(tmp_path), allow_pickle=False)
    assert (array.dtype, array.tolist()) == (np.float32, LOSSES)


def test_an_older_run_has_none(tmp_path):
    found = read_losses(tmp_path, {40: MEAN})
    assert (len(found.tokens), found.at_step) == (0, {})


def test_losses_of_weights_that_were_given_up_are_passed_over(tmp_path):
    written(tmp_path)
    assert read_losses(tmp_path, {40: 2.5}).at_step == {}
    assert read_losses(tmp_path, {40: float("nan")}).at_step == {}


def test_the_tokens_are_written_once(tmp_path):
    written(tmp_path, 40)
    before = RunDirectory(tmp_path).loss_tokens.stat().st_ino
    written(tmp_path, 80)
    assert RunDirectory(tmp_path).loss_tokens.stat().st_ino == before


@pytest.mark.parametrize("name", ["sentence_losses", "loss_tokens"])
def test_a_damaged_file_is_passed_over_wherever_it_is_damaged(tmp_path, name):
    path = written(tmp_path)
    path = RunDirectory(tmp_path).loss_tokens if name == "loss_tokens" else path
    whole, random = path.read_bytes(), np.random.default_rng(1)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_losses(tmp_path, {40: MEAN}).at_step == {}
    for _ in range(400):
        torn = bytearray(whole)
        torn[random.integers(len(whole))] = random.integers(256)
        path.write_bytes(torn)
        read_losses(tmp_path, {40: MEAN})


def test_objects_are_never_unpacked(tmp_path):
    path = written(tmp_path)
    np.save(path, np.array([print, 1, 2], dtype=object), allow_pickle=True)
    assert read_losses(tmp_path, {40: MEAN}).at_step == {}
    np.save(path, np.array(LOSSES, np.float64))
    assert read_losses(tmp_path, {40: MEAN}).at_step == {}
