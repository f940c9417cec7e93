import json
import shutil

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from support.tiny import tiny_corpus, tiny_settings
from unisono.bundle.reader import open_bundle
from unisono.cli import unisono
from unisono.comm.group import Solo
from unisono.errors import ConfigError, DataError
from unisono.train.job import run_with


def average(*arguments):
    return CliRunner().invoke(unisono, ["average", *map(str, arguments)])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A directory with a corpus and a run that has kept its checkpoints of steps 2, 4 and 6."""
    home = tiny_corpus(tmp_path_factory.mktemp("average"))
    torch.set_num_threads(1)
    for _ in run_with(
        Solo(),
        tiny_settings(
            home,
            train={"max_steps": 6},
            checkpoint={"every_steps": 2, "keep": 3},
            validation={"bleu": False, "every_steps": 100},
        ),
    ):
        pass
    return home


def weights_at(home, step):
    return load_file(home / "run" / "checkpoints" / f"step-000000{step}" / "model.safetensors")


def test_the_bundle_has_the_mean_weights_and_translates(home, tmp_path):
    done = average(home / "run", "--to", tmp_path / "mean")
    assert done.exit_code == 0, done.output
    bundle = open_bundle(tmp_path / "mean")
    found = dict(bundle.model().named_parameters())
    parts = [weights_at(home, step) for step in (2, 4, 6)]
    for name, weight in found.items():
        wanted = sum(part[name].double() for part in parts) / 3
        torch.testing.assert_close(weight.double(), wanted, rtol=1e-6, atol=1e-7)
    assert bundle.description.step == 6
    assert bundle.description.scores == {}
    assert len(list(bundle.translator().translate(["one two", "three"]))) == 2


def test_the_last_ones_or_those_named_are_taken(home, tmp_path):
    assert average(home / "run", "--last", 2, "--to", tmp_path / "a").exit_code == 0
    names = "step-0000006,step-0000004"
    assert average(home / "run", "--checkpoints", names, "--to", tmp_path / "b").exit_code == 0
    one, other = (open_bundle(tmp_path / name).model().state_dict() for name in "ab")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["embeddings.shared"], weights_at(home, 6)["embeddings.shared"])


def test_a_dry_run_writes_nothing(home, tmp_path):
    done = average(home / "run", "--last", 2, "--to", tmp_path / "mean", "--dry-run")
    assert "step-0000004, step-0000006" in done.stderr
    assert not (tmp_path / "mean").exists()


def other_run(home, tmp_path, change):
    shutil.copytree(home / "run", tmp_path / "other")
    change(tmp_path / "other")
    return f"step-0000004,{tmp_path}/other/checkpoints/step-0000006"


def widen(run):
    text = (run / "config.toml").read_text()
    assert "inner = 32" in text
    (run / "config.toml").write_text(text.replace("inner = 32", "inner = 64"))


def change_corpus(run):
    table = json.loads((run / "corpus.json").read_text())
    (run / "corpus.json").write_text(json.dumps({**table, "fingerprint": "another"}))


def damage(run):
    file = run / "checkpoints" / "step-0000006" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")


@pytest.mark.parametrize(
    ("change", "says"),
    [(widen, "the model of"), (change_corpus, "the corpus of"), (damage, "SHA-256")],
)
def test_what_does_not_belong_together_is_refused(home, tmp_path, change, says):
    names = other_run(home, tmp_path, change)
    done = average(home / "run", "--checkpoints", names, "--to", tmp_path / "mean")
    assert isinstance(done.exception, DataError)
    assert says in str(done.exception)
    assert not (tmp_path / "mean").exists()


def test_what_is_not_there_is_named(home, tmp_path):
    to = ("--to", tmp_path / "mean")
    assert "has 3 checkpoints, not 4" in str(average(home / "run", "--last", 4, *to).exception)
    missing = average(home / "run", "--checkpoints", "step-0000005", *to).exception
    assert "there is no checkpoint step-0000005" in str(missing)
    both = average(home / "run", "--last", 1, "--checkpoints", "a", *to).exception
    assert isinstance(both, ConfigError)
