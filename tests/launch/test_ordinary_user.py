"""Nothing but the laboratory asks for root: a user without rights trains and translates."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.tiny import tiny_settings
from unisono.config.load import to_toml

pytestmark = pytest.mark.ranks

NOBODY = 65534
# It may read what root may, where Python and we may lie, but write, own and signal nothing.
READS = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *READS)


@pytest.fixture
def home():
    """A directory that belongs to a user without rights; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="unisono-user-") as place:
        yield Path(place)


def as_user(home, *words, given=b""):
    """Run Unisono as a user without rights: as nobody if we are root, else as ourselves."""
    drop = () if os.getuid() else AS_NOBODY
    done = subprocess.run(
        [*drop, sys.executable, "-m", "unisono", *words],
        cwd=home,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home)},
        input=given,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.skipif(
    not os.getuid() and not shutil.which("setpriv"), reason="root without setpriv (util-linux)"
)
def test_a_user_without_rights_trains_in_two_processes_and_uses_the_model(corpus_home, home):
    settings = tiny_settings(Path(), train={"max_steps": 2})
    (home / "run.toml").write_text(to_toml(settings))
    for part in ("corpus", "text"):
        shutil.copytree(corpus_home / part, home / part)
    if not os.getuid():
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    as_user(home, "launch", "run.toml", "--workers", "2")
    assert "step" in as_user(home, "report", "run")
    assert as_user(home, "translate", "--model", "run", "--workers", "1", given=b"one\n")
    assert {path.stat().st_uid for path in home.rglob("*")} == {os.getuid() or NOBODY}
