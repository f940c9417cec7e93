"""What the system refuses while a run goes on: a sentence, the right code, a true status."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

BROKEN = {"code": 4, "state": "failed", "status_code": 4, "left": []}


@pytest.fixture(scope="module")
def trials(corpus_home):
    """All trials of `support.limited`, in a directory that an ordinary user may enter."""
    home = Path(tempfile.mkdtemp(prefix="unisono-refusals-"))
    shutil.copytree(corpus_home, home, dirs_exist_ok=True)
    home.chmod(0o755)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "support.limited", str(home)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[1],
        )
        assert done.returncode == 0, done.stderr
        yield dict(json.loads(line) for line in done.stdout.splitlines())
    finally:
        shutil.rmtree(home)


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("name", "words", "sound"),
    [
        ("file_size", "3 saves in a row failed", False),
        ("open_files", "3 saves in a row failed", True),
        ("memory", "out of memory", True),
        ("read_only", "3 saves in a row failed", True),
        ("full_disk", "No space left on device", True),
        ("moved", "3 saves in a row failed", True),
    ],
)
def test_what_the_system_refuses_ends_the_run_with_a_sentence(trials, name, words, sound):
    found = trials[name]
    if "skipped" in found:
        pytest.skip(found["skipped"])
    assert words in found["said"].partition("error: ")[2]
    assert "Traceback" not in found["said"]
    assert {key: found[key] for key in BROKEN} == BROKEN, found["said"]
    assert bool(found["sound"]) == sound
    assert not found.get("came_back")


@pytest.mark.ranks
def test_the_same_command_continues_when_the_limit_is_gone(trials):
    assert trials["open_files"]["again"] == [0, "done"]


@pytest.mark.ranks
def test_a_run_goes_on_when_its_reader_has_left(trials):
    found = trials["reader_leaves"]
    assert (found["code"], found["state"], found["first"]) == (0, "done", 1)


@pytest.mark.ranks
def test_a_hang_up_at_the_start_saves_and_says_so(trials):
    found = trials["hang_up_at_start"]
    assert (found["code"], found["state"], found["status_code"]) == (75, "preempted", 75)
