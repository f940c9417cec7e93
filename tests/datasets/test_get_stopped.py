"""A download that was broken off goes on with the next call."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
import tomli_w

from datasets.getting import content, get, table
from unisono.datasets.catalogue import find_entry
from unisono.datasets.entry import to_entry
from unisono.datasets.get import get_corpus


def test_stopped_at_any_step_the_next_call_goes_on(site, tmp_path):
    description = table(site)
    description["set"] = description["set"][:3]
    entry = to_entry(description, where="test")
    get(entry, tmp_path / "whole")
    here = (tmp_path / "whole" / "downloads").rename(tmp_path / "here")
    wanted = content(tmp_path / "whole")
    number, stopped = 0, True
    while stopped:
        directory = tmp_path / "c"
        number += 1
        work = get_corpus(entry, directory, given=here)
        stopped = all(next(work, None) is not None for _ in range(number))
        work.close()
        assert stopped != (directory / "lock.json").exists()
        get(entry, directory, given=here)
        found = content(directory)
        section = found["data.toml"].replace(bytes(directory), bytes(tmp_path / "whole"))
        assert section == wanted["data.toml"]
        assert found.keys() == wanted.keys()
        lock = json.loads(found["lock.json"])
        assert all(download["sha256"] for download in lock["downloads"].values())
        own = {"data.toml", "lock.json"}
        assert all(found[name] == wanted[name] for name in wanted.keys() - own)
        shutil.rmtree(directory)
    assert number > 10


KILLED = """
import os, signal, sys
from pathlib import Path
from unisono.datasets.get import get_corpus
from unisono.datasets.catalogue import find_entry

left = int(sys.argv[3])
def counted(function):
    def call(*arguments, **keywords):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call

for name in ("rename", "mkdir", "unlink", "rmdir"):
    setattr(os, name, counted(getattr(os, name)))
for _ in get_corpus(find_entry(sys.argv[1]), Path(sys.argv[2]), given=Path(sys.argv[4])):
    pass
"""


@pytest.mark.ranks
def test_killed_at_any_change_of_the_disk_the_next_call_goes_on(site, tmp_path):
    description = table(site)
    description["set"] = description["set"][:2]
    description["file"] = description["file"][:3]
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(description))
    entry = find_entry(str(tmp_path / "mine.toml"))
    get(entry, tmp_path / "whole")
    here = (tmp_path / "whole" / "downloads").rename(tmp_path / "here")
    wanted = content(tmp_path / "whole")
    number = 0
    while True:
        number += 1
        directory = tmp_path / "c"
        arguments = [tmp_path / "mine.toml", directory, str(number), here]
        command = [sys.executable, "-c", KILLED, *arguments]
        code = subprocess.run(command, check=False).returncode
        assert code in (0, -signal.SIGKILL)
        finished = (directory / "lock.json").exists()
        texts = ("train.en", "train.de", "valid.en", "valid.de")
        assert not finished or all((directory / name).exists() for name in texts)
        get(entry, directory, given=here)
        found = content(directory)
        assert found.keys() == wanted.keys()
        assert all(found[n] == wanted[n] for n in wanted.keys() - {"data.toml", "lock.json"})
        shutil.rmtree(directory)
        if code == 0:
            break
    assert number > 10
