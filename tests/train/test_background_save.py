"""Checkpoints written while training goes on: the same bits, and nothing is left to chance."""

import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from support.tiny import tiny_settings
from train.test_resume import STEPS, assert_identical, final_state, link_corpus, train_in_parts
from unisono.comm.group import Solo
from unisono.errors import RunError
from unisono.records.events import Saved, StepTaken, Warned
from unisono.train.averages import Averages
from unisono.train.checkpoints import checkpoint
from unisono.train.checkpoints.background_save import HostCopies
from unisono.train.checkpoints.checkpoint_sync import CheckpointSync
from unisono.train.divergence_guard import Guard, after_failed_save
from unisono.train.job import run_with
from unisono.train.progress import Progress

PATIENCE_SECONDS = 600


class SlowDisk:
    """A disk on which files of tensors take until `go` is set."""

    def __init__(self, monkeypatch):
        self.go, self.reached = threading.Event(), threading.Event()
        save_file = checkpoint.save_file

        def wait_and_save(tensors, path):
            self.reached.set()
            assert self.go.wait(PATIENCE_SECONDS)
            save_file(tensors, path)

        monkeypatch.setattr(checkpoint, "save_file", wait_and_save)


@pytest.fixture
def disk(monkeypatch):
    disk = SlowDisk(monkeypatch)
    yield disk
    disk.go.set()


def checkpoints_of(directory, model):
    optimizer = torch.optim.Adam(model.parameters())
    sync = CheckpointSync(directory, 3, Solo(), model, optimizer, Averages(), lambda: model)
    return sync, optimizer


def test_what_is_written_is_the_state_of_the_update_at_which_it_began(tmp_path, disk):
    model = nn.Linear(3, 2)
    sync, optimizer = checkpoints_of(tmp_path, model)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    moment = optimizer.state[model.weight]["exp_avg"].clone()
    sync.begin_save(Progress(step=1))
    assert disk.reached.wait(PATIENCE_SECONDS)
    optimizer.step()
    assert not sync.is_written
    disk.go.set()
    assert isinstance(sync.finish_save(), Saved)
    loaded = checkpoint.load(tmp_path / "step-0000001")
    assert all(torch.equal(weight, loaded.model[name]) for name, weight in before.items())
    assert torch.equal(loaded.optimizer["weight/exp_avg"], moment)


def test_there_is_one_copy_and_the_next_save_reuses_its_memory():
    copies, tensor = HostCopies(), torch.arange(6.0)
    copies.begin()
    first = copies.add("a", tensor)
    copies.copied("cpu")()
    copies.begin()
    second = copies.add("a", tensor + 1)
    assert second.data_ptr() == first.data_ptr() != tensor.data_ptr()
    assert torch.equal(second, tensor + 1)
    copies.begin()
    grown = copies.add("a", torch.arange(7.0))
    assert torch.equal(grown, torch.arange(7.0))


def train_past_a_slow_save(comm, home, run, past):
    """Train; the disk is stuck from the first due save until `past` updates are made."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = SlowDisk(monkeypatch)
        settings = tiny_settings(
            Path(home), run, train={"max_steps": STEPS}, checkpoint={"every_steps": 5}
        )
        events = []
        for event in run_with(comm, settings):
            events.append(event)
            if isinstance(event, StepTaken) and event.step == past:
                disk.go.set()
    kinds = [(type(e).__name__, e.step) for e in events if isinstance(e, StepTaken | Saved)]
    first = next(event for event in events if isinstance(event, Saved))
    return kinds, first.stall, first.seconds


def assert_passed(found):
    kinds, stall, seconds = found
    assert kinds.index(("Saved", 5)) > kinds.index(("StepTaken", 8))
    assert kinds.index(("Saved", 5)) < kinds.index(("Saved", 10))
    assert 0 <= stall < seconds


def test_updates_go_on_while_a_checkpoint_is_written_and_the_result_is_the_same(
    corpus_home, tmp_path
):
    home = link_corpus(corpus_home, tmp_path)
    assert_passed(train_past_a_slow_save(Solo(), home, "slow", 8))
    train_in_parts(Solo(), home, "again", [STEPS])
    assert_identical(final_state(home / "again"), final_state(home / "slow"))


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_all_processes_go_on_and_learn_of_the_save_at_the_same_update(
    ranks, corpus_home, tmp_path
):
    home = link_corpus(corpus_home, tmp_path)
    found = ranks.run(train_past_a_slow_save, str(home), "slow", 8)
    assert found[0] == found[1]
    assert_passed(found[0])


def test_a_run_that_ends_by_an_error_finishes_what_it_is_writing(corpus_home, tmp_path, disk):
    settings = tiny_settings(link_corpus(corpus_home, tmp_path), "run")
    events = run_with(Solo(), settings)
    for event in events:
        if isinstance(event, StepTaken) and disk.reached.is_set():
            break
    later = threading.Timer(0.2, disk.go.set)
    later.start()
    events.close()
    later.join()
    directory = tmp_path / "run" / "checkpoints"
    assert checkpoint.newest(directory)[0]
    assert not list(directory.glob(".tmp-*"))


def test_a_save_that_failed_is_told_later_and_nothing_counts_on_it(
    corpus_home, tmp_path, monkeypatch
):
    home, saves, save_file = link_corpus(corpus_home, tmp_path), [], checkpoint.save_file

    def fail_once(tensors, path):
        saves.append(path)
        if len(saves) == 1:
            raise OSError(28, "No space left on device")
        save_file(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", fail_once)
    tables = {"train": {"max_steps": STEPS}, "checkpoint": {"every_steps": 5}}
    events = list(run_with(Solo(), tiny_settings(home, "run", **tables)))
    warning = next(event for event in events if isinstance(event, Warned))
    assert "step 5 was not saved" in warning.message
    directory = home / "run" / "checkpoints"
    guard = checkpoint.load(directory / checkpoint.name_of(STEPS)).progress.guard
    for step in filter(None, (*guard.safe, *guard.next_safe)):
        assert (directory / checkpoint.name_of(step)).is_dir()


def test_a_failed_save_is_forgotten_even_if_updates_have_proven_it():
    before = Guard(safe=(10, 10))
    unproven = Guard(safe=(10, 10), next_safe=(20, 10))
    proven = Guard(safe=(20, 10))
    assert after_failed_save(unproven, 20, before) == before
    assert after_failed_save(proven, 20, before) == before


def test_three_failed_saves_in_a_row_are_an_error(tmp_path):
    sync, _ = checkpoints_of(tmp_path / "gone" / "away", nn.Linear(3, 2))
    for step in (1, 2):
        assert isinstance(sync.save(Progress(step=step)), Warned)
    with pytest.raises(RunError, match="3 saves in a row failed"):
        sync.save(Progress(step=3))


def test_failures_count_in_a_row_and_a_save_begins_the_count_again(tmp_path):
    """The directory is moved away and comes back, as disks do; the third miss is an error."""
    place, away = tmp_path / "run" / "checkpoints", tmp_path / "away"
    place.mkdir(parents=True)
    sync, _ = checkpoints_of(place, nn.Linear(3, 2))
    for step in range(1, 10, 3):  # two that fail, one that does not, three times
        place.parent.rename(away)
        assert isinstance(sync.save(Progress(step=step)), Warned)
        assert isinstance(sync.save(Progress(step=step + 1)), Warned)
        away.rename(place.parent)
        assert isinstance(sync.save(Progress(step=step + 2)), Saved)
    place.parent.rename(away)
    for _ in range(2):
        assert isinstance(sync.save(Progress(step=12)), Warned)
    with pytest.raises(RunError, match="3 saves in a row failed"):
        sync.save(Progress(step=12))
    assert checkpoint.newest(away / "checkpoints") == ("step-0000009", [])


def test_a_save_that_fails_leaves_what_was_whole_and_the_pointer_on_it(tmp_path):
    sync, _ = checkpoints_of(tmp_path, nn.Linear(3, 2))
    for step in (1, 2, 3):
        assert isinstance(sync.save(Progress(step=step)), Saved)
    (tmp_path / checkpoint.name_of(4)).write_text("in the way")
    assert isinstance(sync.save(Progress(step=4)), Warned)
    assert checkpoint.pointed(tmp_path, "latest") == checkpoint.name_of(3)
    for step in (1, 2, 3):
        checkpoint.verify(tmp_path / checkpoint.name_of(step))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda run: run.rename(run.with_name("moved")), "the run directory is gone"),
        (lambda run: (run / "checkpoints").touch(), "ends without its last save"),
    ],
    ids=["moved", "in the way"],
)
def test_a_run_that_cannot_be_saved_at_its_end_has_not_ended_well(
    corpus_home, tmp_path, harm, words
):
    home = link_corpus(corpus_home, tmp_path)
    tables = {"train": {"max_steps": 3}, "checkpoint": {"every_steps": 100}}
    with pytest.raises(RunError, match=words):
        for event in run_with(Solo(), tiny_settings(home, "run", **tables)):
            if isinstance(event, StepTaken) and event.step == 2:
                harm(home / "run")
