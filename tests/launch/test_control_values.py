"""A line break in a value never becomes a line of a script, a manifest or a command."""

from pathlib import Path

import pytest

from fuzz.readers import run
from unisono.config.load import load_settings
from unisono.errors import ConfigError
from unisono.launch.batch_systems import SlurmJob
from unisono.launch.ssh import Ssh

CONFIG = str(Path(__file__).parents[2] / "configs" / "tiny.toml")
EVIL = "a\ntouch /tmp/owned"
SLURM = ("--slurm", "--nodes", "2")
KUBERNETES = ("--kubernetes", "--image", "i")


@pytest.mark.parametrize(
    "words",
    [
        (*SLURM, "--partition", EVIL),
        (*SLURM, "--time", EVIL),
        (*SLURM, "--sbatch", f"account={EVIL}"),
        (*SLURM, "--env", f"A={EVIL}"),
        (*SLURM, "--set", f"run={EVIL}"),
        (*KUBERNETES, "--name", EVIL),
        (*KUBERNETES, "--env", f"A={EVIL}"),
        ("--kubernetes", "--image", EVIL),
        ("--hosts", EVIL),
        ("--hosts", "a,b", "--directory", EVIL),
        ("--set", f"run={EVIL}"),
    ],
    ids=lambda words: " ".join(words)[:40].replace("\n", "/"),
)
def test_launch_refuses_it(words):
    code, said, crashed = run(["launch", CONFIG, "--dry-run", *words])
    assert (code, crashed) == (2, ""), said
    assert "control characters" in said


def test_the_makers_of_scripts_and_commands_refuse_it_too():
    job = SlurmJob(("train",), "python", "/home", Path(EVIL), 1, 1)
    with pytest.raises(ConfigError, match="control characters"):
        job.script()
    with pytest.raises(ConfigError, match="control characters"):
        Ssh().command("host", ("python", EVIL))
    with pytest.raises(ConfigError, match="control characters"):
        load_settings(Path(CONFIG), (f"run={EVIL}",))
