import fcntl
import os
import shutil
from pathlib import Path

import pytest

from support.tiny import tiny_corpus, tiny_settings
from unisono.comm.group import Solo
from unisono.errors import ConfigError, DataError, RunError
from unisono.records.events import StepTaken, Warned
from unisono.records.view import read_run
from unisono.train import job
from unisono.train.job import run_with


@pytest.fixture
def home(corpus_home, tmp_path):
    (tmp_path / "corpus").symlink_to(corpus_home / "corpus")
    return tmp_path


def train(home, steps=3, **tables):
    settings = tiny_settings(home, **{**tables, "train": {"max_steps": steps}})
    return list(run_with(Solo(), settings))


def everything_in(path):
    return {p: p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()}


def test_another_setting_is_refused_and_named(home):
    train(home)
    before = everything_in(home / "run")
    with pytest.raises(ConfigError, match=r"model.width = 16, now it is 32") as error:
        train(home, steps=5, model={"width": 32})
    assert "--set run=" in error.value.fix
    assert everything_in(home / "run") == before


def test_micro_batches_may_change_until_there_is_a_checkpoint(home, monkeypatch):
    def too_large(session):
        raise ConfigError("it does not fit", fix="set a smaller one")

    sizes = {n: {"tokens_per_update": 600, "tokens_per_micro_batch": n} for n in (600, 300)}
    with monkeypatch.context() as patch:
        patch.setattr(job, "try_longest", too_large)
        with pytest.raises(ConfigError, match="does not fit"):
            train(home, batching=sizes[600])
    train(home, batching=sizes[300])
    with pytest.raises(ConfigError, match="micro_batch = 300, now it is 600"):
        train(home, steps=5, batching=sizes[600])


def test_limits_and_intervals_may_change(home):
    train(home)
    taken = train(home, steps=5, validation={"every_steps": 2}, checkpoint={"keep": 3})
    assert [e.step for e in taken if isinstance(e, StepTaken)] == [4, 5]


def test_a_directory_with_other_things_in_it_is_not_touched(home):
    (home / "run").mkdir()
    (home / "run" / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match=r"not a run of Unisono: it holds thesis.txt"):
        train(home)
    assert [path.name for path in (home / "run").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"corpus": {"vocabulary": 72}}, "vocabulary = 64; the settings say 72"),
        ({"data": {"source_language": "fr"}}, "source_language = 'en'"),
        ({"data": {"test": {"source": "other.en", "target": "test.de"}}}, "other.en"),
    ],
)
def test_a_corpus_made_by_other_settings_is_refused(home, tables, says):
    with pytest.raises(ConfigError, match=says):
        train(home, **tables)
    assert not (home / "run").exists()


def test_a_run_directory_that_is_a_file_is_refused(home):
    (home / "run").write_text("precious")
    with pytest.raises(ConfigError, match="is a file"):
        train(home)
    with pytest.raises(ConfigError, match="cannot be written"):
        list(run_with(Solo(), tiny_settings(home, "/proc/nothing/here")))


def test_a_finished_run_is_not_tested_again(home):
    first, again = train(home), train(home)
    assert sum(type(event).__name__ == "Tested" for event in first) == 1
    assert [type(event).__name__ for event in again] == ["Started", "Ended"]


def test_a_corpus_that_changed_is_refused(tmp_path):
    home = tiny_corpus(tmp_path)
    train(home)
    file = home / "corpus" / "train.0.target.ids"
    data = bytearray(file.read_bytes())
    data[10] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"train.0.target.ids"):
        train(home, steps=5)


def test_another_corpus_under_the_same_name_is_refused(tmp_path, corpus_home):
    home = tiny_corpus(tmp_path)
    train(home)
    shutil.rmtree(home / "corpus")
    text = home / "text" / "train.en"
    lines = text.read_text().splitlines(keepends=True)
    text.write_text("".join(reversed(lines)))
    from unisono.prepare.build import prepare_corpus

    settings = tiny_settings(home)
    list(prepare_corpus(settings.data, settings.corpus))
    with pytest.raises(DataError, match="not the one this run was started with"):
        train(home, steps=5)


def test_two_processes_cannot_train_in_one_directory(home):
    (home / "run").mkdir()
    handle = os.open(home / "run" / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, b"host other process 7\n")
    os.lseek(handle, 0, os.SEEK_SET)
    with pytest.raises(RunError, match="host other process 7"):
        train(home)
    os.close(handle)
    assert train(home)


def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_used(home):
    train(home, steps=6, checkpoint={"every_steps": 2, "keep": 3})
    file = home / "run" / "checkpoints" / "step-0000006" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 4
    file.write_bytes(data)
    events = train(home, steps=8, checkpoint={"every_steps": 2, "keep": 3})
    warnings = [e.message for e in events if isinstance(e, Warned)]
    assert len(warnings) == 1
    assert "step-0000006 is damaged" in warnings[0]
    assert [e.step for e in events if isinstance(e, StepTaken)] == [6, 7, 8]  # 5 was the best
    assert read_run(home / "run").warnings[0].message == warnings[0]


def test_damaged_checkpoints_do_not_push_out_the_sound_one(home):
    train(home, steps=6, checkpoint={"every_steps": 2, "keep": 3})
    for step in (5, 6):
        (home / "run" / "checkpoints" / f"step-{step:07d}" / "model.safetensors").unlink()
    train(home, steps=4, checkpoint={"every_steps": 2, "keep": 2})
    assert (home / "run" / "checkpoints" / "step-0000004" / "model.safetensors").is_file()
    assert (home / "run" / "checkpoints" / "damaged-step-0000006").is_dir()


def test_a_save_that_fails_is_told_and_three_in_a_row_end_the_run(home, monkeypatch):
    usage = shutil.disk_usage(home)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    events = []
    settings = tiny_settings(home, checkpoint={"every_steps": 1})
    with pytest.raises(RunError, match="3 saves in a row failed"):
        events.extend(run_with(Solo(), settings))
    # A save is written during the next update, which may be over before the save has failed.
    assert [s.step for s in read_run(home / "run").steps] in ([1, 2, 3], [1, 2, 3, 4])
    assert len(read_run(home / "run").warnings) == 2


def test_patience_and_the_clock_end_a_run(home):
    stuck = {"name": "constant", "peak": 1e-12}
    settings = tiny_settings(
        home,
        "patient",
        schedule=stuck,
        optimizer={"name": "sgd"},
        train={"max_steps": 100, "patience": 2},
        validation={"every_steps": 2, "best": "bleu"},
    )
    *_, ended = run_with(Solo(), settings)
    assert (ended.reason, ended.step) == ("patience", 6)
    settings = tiny_settings(home, "hasty", train={"max_time": "0.05 s"})
    *_, ended = run_with(Solo(), settings)
    assert ended.reason == "max_time"
    settings = tiny_settings(home, "epochs", train={"max_steps": 0, "max_epochs": 2})
    *_, ended = run_with(Solo(), settings)
    view = read_run(home / "epochs")
    assert ended.reason == "max_epochs"
    assert ended.step == 2 * view.starts[0].updates_per_epoch
    assert {step.epoch for step in view.steps} == {1, 2}


def test_a_loss_that_is_not_finite_is_skipped_and_then_ends_the_run(home):
    exploding = {"name": "constant", "peak": 1e38}
    settings = tiny_settings(
        home,
        schedule=exploding,
        optimizer={"name": "sgd"},
        train={"max_steps": 100, "guard": False},
    )
    with pytest.raises(RunError, match="20 updates in a row were not finite"):
        list(run_with(Solo(), settings))
    view = read_run(home / "run")
    assert sum(step.skipped for step in view.steps) >= 19


def test_a_run_of_a_version_that_had_fewer_settings_is_continued(home):
    train(home, steps=2)
    config = home / "run" / "config.toml"
    newer = ("guard", "precision", "learning_lines")
    kept = [line for line in config.read_text().splitlines() if not line.startswith(newer)]
    config.write_text("\n".join(kept) + "\n")
    assert train(home, steps=4)


@pytest.mark.parametrize("file", ["lock", "events/rank-0000.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_a_run_writes_to_no_pipe_and_through_no_link(home, file, kind):
    """In a run directory of somebody else: the lock would empty the file that it leads to."""
    train(home)
    path, other = home / "run" / file, home / "other"
    assert path.is_file()
    path.unlink()
    other.write_text("mine\n")
    made = {
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/full"),
        "link": lambda: path.symlink_to(other),
    }
    made[kind]()
    with pytest.raises((ConfigError, DataError), match="not a file") as refused:
        train(home, steps=4)
    assert refused.value.where == str(path)
    assert other.read_text() == "mine\n"
