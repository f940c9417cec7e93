"""What earlier launches brought, and when nobody needs it any more."""

import subprocess
import sys

import pytest

from unisono.launch.bring.trees import Trees
from unisono.launch.bring.unused import note_run, unused

CONTENT = b"12345"


@pytest.fixture
def trees(tmp_path):
    """A directory with two versions of everything."""
    trees = Trees(tmp_path)
    for name in ("code-1", "code-2", "python-1", "python-2", "corpus-1", "corpus-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.py").write_bytes(CONTENT)
        trees.write(name, {"file.py": [len(CONTENT), "digest"]})
    return trees


def names(trees):
    return {path.name for path in trees.base.glob("*-?")}


def test_what_the_run_needs_is_kept_and_the_rest_goes(trees):
    note_run(trees.base, "runs/mine", ["code-2", "python-2"])
    needed = ["code-2", "python-2", "corpus-2"]
    old = {"code-1": 5, "python-1": 5, "corpus-1": 5}
    assert unused(trees, needed, remove=False) == old
    assert len(names(trees)) == 6
    (trees.base / "code-1" / "mine").touch()
    assert unused(trees, needed, remove=True) == old
    assert names(trees) == {*needed, "code-1"}
    assert [path.name for path in (trees.base / "code-1").iterdir()] == ["mine"]
    assert unused(trees, needed, remove=True) == {}


def test_a_run_whose_records_are_there_keeps_its_python_to_give_them_away(trees):
    note_run(trees.base, "runs/other", ["code-1", "python-1"])
    note_run(trees.base, "runs/mine", ["code-2", "python-2"])
    (trees.base / "runs" / "other").mkdir(parents=True)
    needed = ["code-2", "python-2", "corpus-2"]
    assert set(unused(trees, needed, remove=True)) == {"corpus-1"}
    (trees.base / "runs" / "other").rmdir()
    assert set(unused(trees, needed, remove=True)) == {"code-1", "python-1"}


def test_while_a_run_goes_on_nothing_is_removed(trees):
    python = trees.base / "python-1" / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    program = "import sys; print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([python, "-S", "-c", program], **pipes) as running:
        running.stdout.readline()
        assert unused(trees, ["code-2"], remove=True) == {}
        assert len(names(trees)) == 6
        running.stdin.close()
    assert "code-1" in unused(trees, ["code-2"], remove=True)


def test_a_damaged_note_counts_for_nothing(trees):
    (trees.base / ".runs").write_text("nonsense")
    assert set(unused(trees, ["code-2"], remove=False)) >= {"code-1", "python-1"}
    note_run(trees.base, "runs/mine", ["code-2"])
    assert "code-2" not in unused(trees, ["code-2"], remove=False)
