"""The README's commands, run as they stand there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.tiny import write_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def commands(heading):
    """Return the lines of the first block of shell commands below `heading`."""
    block = re.search(rf"^## {heading}$.*?^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert block, f"no commands below {heading}"
    lines = [line.partition("  #")[0].strip() for line in block[1].splitlines()]
    return [line for line in lines if line]


def shell(command, cwd):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def test_the_first_commands_are_make_demo_and_make_test():
    assert commands("Start here") == ["make demo", "make test"]
    planned = shell("make -n demo -o .venv/ready", ROOT).stdout
    assert ".venv/bin/unisono demo" in planned.splitlines()


@pytest.mark.ranks
def test_the_everyday_commands_work_on_a_users_own_files(tmp_path):
    for name, pairs in (("train", 300), ("valid", 20), ("test", 20)):
        write_text(tmp_path / "data", name, pairs, seed=pairs)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    everyday = commands("Every day, with your own files")
    assert len(everyday) == 5
    for command in everyday:
        shell(command, tmp_path)
    assert (tmp_path / "runs" / "tiny" / "report.html").is_file()
    sources = (tmp_path / "data" / "test.en").read_text().count("\n")
    assert (tmp_path / "output.de").read_text().count("\n") == sources


@pytest.mark.long(minutes=3)
@pytest.mark.timeout(1500)
def test_a_short_demo_learns_the_builtin_corpus(tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    config = tmp_path / "configs" / "demo.toml"
    text = config.read_text()
    assert text.count("_steps = 1100") == 2
    config.write_text(text.replace("_steps = 1100", "_steps = 150"))
    shown = shell("unisono demo", tmp_path)
    report = json.loads((tmp_path / "runs" / "demo" / "report.json").read_text())
    assert [answer["verdict"] for answer in report["answers"]][0] == "finished"
    assert len(report["answers"]) == 11
    assert re.search(r"test set, best checkpoint .*: BLEU [\d.]+", shown.stderr)
    loss = re.search(r"validation at step 150: loss ([\d.]+)", shown.stderr)
    assert float(loss[1]) < 4.5  # nothing learnt: 8.3; how frequent pieces are: over 5
