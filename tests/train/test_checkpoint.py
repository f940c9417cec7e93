import random
import shutil

import pytest
import torch

from unisono.errors import DataError, RunError
from unisono.train.checkpoints import checkpoint
from unisono.train.progress import Progress


def write(directory, step, fill=1.0):
    weights = {"a.weight": torch.full((3, 4), fill), "b": torch.arange(5.0)}
    moments = {
        "a.weight/exp_avg": torch.zeros(3, 4),
        "a.weight/step": torch.tensor(float(step)),
    }
    return checkpoint.save(directory, Progress(step=step, position=step), weights, moments)


def test_what_was_saved_is_what_is_loaded(tmp_path):
    write(tmp_path, 7, fill=2.5)
    loaded = checkpoint.load(tmp_path / "step-0000007")
    assert loaded.progress == Progress(step=7, position=7)
    assert torch.equal(loaded.model["a.weight"], torch.full((3, 4), 2.5))
    assert float(loaded.optimizer["a.weight/step"]) == 7.0


def test_a_checkpoint_is_made_of_four_files_and_no_pickle(tmp_path):
    write(tmp_path, 7)
    names = {path.name for path in (tmp_path / "step-0000007").iterdir()}
    assert names == {
        "model.safetensors",
        "optimizer.safetensors",
        "progress.json",
        "manifest.json",
    }


def test_the_newest_is_found_by_step_not_by_name(tmp_path):
    write(tmp_path, 9_999_999)
    write(tmp_path, 10_000_000)
    assert checkpoint.newest(tmp_path) == ("step-10000000", [])


def test_pruning_keeps_the_newest_and_the_best(tmp_path):
    for step in (1, 2, 3, 4, 5):
        write(tmp_path, step)
    checkpoint.prune(tmp_path, keep=2, needed={"step-0000002"})
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["step-0000002", "step-0000004", "step-0000005"]


def damage(path, kind, rng):
    """Damage one file of the checkpoint in the way `kind` names."""
    file = rng.choice(sorted(path.iterdir()))
    data = bytearray(file.read_bytes())
    place = rng.randrange(len(data))
    if kind == "flip":
        data[place] ^= 1 << rng.randrange(8)
    elif kind == "truncate":
        del data[place:]
    elif kind == "zero":
        end = min(len(data), place + 4096)
        if not any(data[place:end]):
            data[place] ^= 1  # zeros were there already: change something
        else:
            data[place:end] = bytes(end - place)
    if kind == "remove":
        file.unlink()
    else:
        file.write_bytes(data)


@pytest.mark.parametrize("kind", ["flip", "truncate", "zero", "remove"])
def test_damage_is_always_noticed_and_the_one_before_is_used(tmp_path, kind):
    rng = random.Random(kind)
    write(tmp_path, 1)
    write(tmp_path, 2)
    shutil.copytree(tmp_path / "step-0000002", tmp_path / "sound")
    for _ in range(50):
        damage(tmp_path / "step-0000002", kind, rng)
        name, troubles = checkpoint.newest(tmp_path)
        assert name == "step-0000001"
        assert len(troubles) == 1
        assert "step-0000002 is damaged" in troubles[0]
        shutil.rmtree(tmp_path / "step-0000002")
        shutil.copytree(tmp_path / "sound", tmp_path / "step-0000002")
    assert checkpoint.newest(tmp_path) == ("step-0000002", [])


def test_a_manifest_of_another_checkpoint_is_noticed(tmp_path):
    write(tmp_path, 1, fill=1.0)
    write(tmp_path, 2, fill=2.0)
    shutil.copy(tmp_path / "step-0000001/manifest.json", tmp_path / "step-0000002")
    with pytest.raises(DataError, match="not that of this checkpoint"):
        checkpoint.verify(tmp_path / "step-0000002")


def test_if_none_is_sound_training_does_not_silently_start_anew(tmp_path):
    write(tmp_path, 1)
    (tmp_path / "step-0000001" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError, match="none of the 1 checkpoints"):
        checkpoint.newest(tmp_path)
    assert checkpoint.newest(tmp_path / "absent") == ("", [])


def test_a_full_disk_is_noticed_before_anything_is_touched(tmp_path, monkeypatch):
    write(tmp_path, 1)
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(RunError, match=r"needs 1.0 MB, but only 1.0 kB are free"):
        write(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000001"]


def test_a_damaged_checkpoint_of_the_same_step_is_replaced(tmp_path):
    write(tmp_path, 1)
    (tmp_path / "step-0000001" / "model.safetensors").unlink()
    write(tmp_path, 1)
    assert checkpoint.newest(tmp_path) == ("step-0000001", [])
